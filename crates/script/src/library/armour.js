// Some built-in functions of the engine can run for hours inside one call, where no interrupt
// reaches them: array methods over lengths that no memory could hold, searches for a long text in
// a long text, sorting endless runs of accents. Here they are replaced by versions that refuse
// such input with a RangeError, or do the long way round in JavaScript, which can be interrupted.
// For ordinary input they do exactly what the originals do. They also look at the clock when they are
// given much to do, so that loops around them end in time.
//
// native.late()     is the time of the call up? if so, the next interrupt check ends the script
// native.random()   a random number; the engine's own begin anew in every call
// native.write(value, space)   JSON text of a value
(function armour(native) {
  'use strict';

  const { apply, construct } = Reflect;
  const { isArray } = Array;
  const { defineProperty, getOwnPropertyDescriptor: descriptor } = Object;
  const { min, max, trunc } = Math;
  const text = String, number = Number, range = RangeError, type = TypeError;
  const { MAX_SAFE_INTEGER } = Number;
  const { isConcatSpreadable, replace: replaceSymbol, split: splitSymbol } = Symbol;
  const arrays = Array.prototype, strings = String.prototype;

  // More elements than fit into a script's memory: a longer array is made of holes.
  const LENGTH_MAX = 5000000;
  // Numbers that are sorted in one step.
  const NUMBERS_MAX = 1000000;
  // Characters compared at most by one search.
  const SEARCH_MAX = 500000000;
  // Characters of JSON text that are parsed at once: a few bytes of text can become an object of a
  // hundred, and nothing looks at the memory meanwhile.
  const JSON_MAX = 8000000;
  // Elements that are sorted by their texts in one step.
  const SORTED_MAX = 32;
  // Characters of a text that takes long to compare.
  const LONG_MIN = 1000;
  // The longest run of combining marks that is put into order.
  const MARKS_MAX = 1000;

  // Elements or characters that are worth a look at the clock.
  const HEAVY = 2000;

  function weigh(size) {
    if (size > HEAVY && native.late()) for (;;) { /* ends at the next check */ }
  }

  function refuse(what) {
    throw new range(`The ${what} is too large for a script.`);
  }

  // Replaces methods of `owner`; `makers` get the original and return an object with the new one,
  // so that the new one is a method like the old one: no prototype, and the same name. Every context
  // runs this once, so it does no more than it must.
  function replace(owner, makers) {
    for (const name in makers) {
      const value = makers[name](owner[name])[name];
      defineProperty(owner, name, { value, writable: true, configurable: true });
    }
  }

  // ---- proxies ----------------------------------------------------------------------------------
  // The length of a true array cannot lie; that of a proxy for one can. So proxies are known.

  const NativeProxy = Proxy, nativeRevocable = Proxy.revocable;
  const proxies = new WeakSet();
  const remember = WeakSet.prototype.add.bind(proxies);
  const isProxy = WeakSet.prototype.has.bind(proxies);
  // Bound, because a bound function has no prototype property, as Proxy has none.
  const KnownProxy = function (target, handler) {
    if (new.target === undefined) throw new type('Proxy must be called with new');
    const made = new NativeProxy(target, handler);
    remember(made);
    return made;
  }.bind(undefined);
  defineProperty(KnownProxy, 'name', { value: 'Proxy', configurable: true });
  defineProperty(KnownProxy, 'length', { value: 2, configurable: true });
  defineProperty(KnownProxy, 'revocable', {
    value: {
      revocable(target, handler) {
        const made = nativeRevocable(target, handler);
        remember(made.proxy);
        return made;
      },
    }.revocable,
    writable: true,
    configurable: true,
  });
  defineProperty(globalThis, 'Proxy', { value: KnownProxy, writable: true, configurable: true });

  function isTrueArray(value) {
    return isArray(value) && !isProxy(value);
  }

  // ---- arrays -----------------------------------------------------------------------------------

  function toLength(value) {
    const length = trunc(number(value)) || 0;
    return min(max(length, 0), MAX_SAFE_INTEGER);
  }

  function checkedLength(list) {
    const length = toLength(list.length);
    if (length > LENGTH_MAX) refuse('array');
    return length;
  }

  function weighArray(list) {
    if (list.length > LENGTH_MAX) refuse('array');
    weigh(list.length);
  }

  // A true array with the elements and holes of an array-like.
  function copied(like) {
    const length = checkedLength(like), copy = [];
    copy.length = length;
    for (let at = 0; at < length; at++) if (at in like) put(copy, at, like[at]);
    return copy;
  }

  // Own property, whatever setters an index has further up.
  function put(list, at, value) {
    defineProperty(list, at, { value, writable: true, enumerable: true, configurable: true });
  }

  // For methods that only read.
  function reading(name) {
    return (original) => ({
      [name](one) {
        if (!isTrueArray(this) && this !== undefined && this !== null) {
          return apply(original, copied(Object(this)), arguments);
        }
        if (isArray(this)) weighArray(this);
        return apply(original, this, arguments);
      },
    });
  }

  // For methods that change their receiver: an array-like is worked on as a copy and written back.
  function changing(name) {
    return (original) => ({
      [name](one) {
        if (isTrueArray(this)) {
          weighArray(this);
          return apply(original, this, arguments);
        }
        if (this === undefined || this === null) return apply(original, this, arguments);
        const like = Object(this), copy = copied(like), before = copy.length;
        const result = apply(original, copy, arguments);
        for (let at = 0; at < copy.length; at++) {
          if (at in copy) like[at] = copy[at]; else delete like[at];
        }
        for (let at = copy.length; at < before; at++) delete like[at];
        like.length = copy.length;
        return result === copy ? like : result;
      },
    });
  }

  function flattenInto(out, list, depth) {
    const length = toLength(list.length);
    for (let at = 0; at < length; at++) {
      if (!(at in list)) continue;
      const value = list[at];
      if (depth > 0 && isArray(value)) flattenInto(out, value, depth - 1);
      else put(out, out.length, value);
    }
    return out;
  }

  replace(arrays, {
    join: reading('join'),
    slice: reading('slice'),
    toLocaleString: reading('toLocaleString'),
    copyWithin: changing('copyWithin'),
    reverse: changing('reverse'),
    shift: changing('shift'),
    sort: byTexts(changing('sort')),
    toSorted: byTexts(reading('toSorted')),
    indexOf: searchingList('indexOf', (list, value, start, length) => {
      for (let at = start; at < length; at++) if (at in list && list[at] === value) return at;
      return -1;
    }),
    includes: searchingList('includes', (list, value, start, length) => {
      for (let at = start; at < length; at++) if (list[at] === value) return true;
      return false;
    }),
    lastIndexOf: (original) => ({
      lastIndexOf(value, from) {
        if (!isLong(value)) return apply(original, this, arguments);
        const list = Object(this), length = toLength(list.length);
        const last = arguments.length > 1 ? trunc(number(from)) || 0 : length - 1;
        for (let at = last < 0 ? length + last : min(last, length - 1); at >= 0; at--) {
          if (at in list && list[at] === value) return at;
        }
        return -1;
      },
    }),
    splice: changing('splice'),
    unshift: changing('unshift'),
    concat: (original) => ({
      concat(...given) {
        for (let at = 0; at < given.length; at++) given[at] = checkedPart(given[at]);
        return apply(original, checkedPart(this), given);
      },
    }),
    flat: () => ({
      flat(depth) {
        return flattenInto([], Object(this), depth === undefined ? 1 : trunc(number(depth)) || 0);
      },
    }),
    flatMap: () => ({
      flatMap(change, self) {
        if (typeof change !== 'function') throw new type('not a function');
        const list = Object(this), length = toLength(list.length), out = [];
        for (let at = 0; at < length; at++) {
          if (!(at in list)) continue;
          const value = apply(change, self, [list[at], at, list]);
          if (isArray(value)) flattenInto(out, value, 0); else put(out, out.length, value);
        }
        return out;
      },
    }),
  });

  // Values that take long to compare, so that comparing them many times must not be one step.
  function isLong(value) {
    return (typeof value === 'string' && value.length > LONG_MIN) || typeof value === 'bigint';
  }

  function searchingList(name, search) {
    return (original) => ({
      [name](value, from) {
        if (!isLong(value)) return apply(original, this, arguments);
        const list = Object(this), length = toLength(list.length), start = trunc(number(from)) || 0;
        return search(list, value, start < 0 ? max(length + start, 0) : start, length);
      },
    });
  }

  // Sorting without a function of the script's own compares texts, which may be long, in one long step;
  // with one it can be interrupted.
  function byText(left, right) {
    const one = `${left}`, other = `${right}`;
    return one < other ? -1 : one > other ? 1 : 0;
  }

  function byTexts(maker) {
    return (original) => maker(function (compare) {
      const isShort = compare !== undefined || !(this.length > SORTED_MAX);
      return apply(original, this, [isShort ? compare : byText]);
    });
  }

  function checkedPart(part) {
    if (typeof part !== 'object' || part === null) return part;
    const spread = part[isConcatSpreadable];
    const spreads = spread === undefined ? isArray(part) : Boolean(spread);
    if (!spreads) return part;
    if (isTrueArray(part) && spread === undefined) {
      weighArray(part);
      return part;
    }
    return copied(part);
  }

  // Sorting numbers without a function of the script's own is one long step.
  function sortingNumbers(name) {
    return (original) => ({
      [name](compare) {
        if (compare === undefined && this.length > NUMBERS_MAX) refuse('array of numbers');
        return apply(original, this, [compare]);
      },
    });
  }

  // ---- numbers in long texts ------------------------------------------------------------------------
  // Reading a number from a text of megabytes takes milliseconds, even if there is none in it. Functions
  // that do so for many elements in one step are given numbers.

  function toNumber(value) {
    return typeof value === 'string' && value.length > LONG_MIN ? number(value) : value;
  }

  function toNumbers(list) {
    const numbers = [];
    for (let at = 0; at < list.length; at++) put(numbers, at, toNumber(list[at]));
    return numbers;
  }

  function ofNumbers(name) {
    return (original) => {
      const { length } = original;
      const made = {
        [name](...given) { return apply(original, this, given.length > 8 ? toNumbers(given) : given); },
      };
      defineProperty(made[name], 'length', { value: length, configurable: true });
      return made;
    };
  }

  replace(Math, { max: ofNumbers('max'), min: ofNumbers('min'), hypot: ofNumbers('hypot') });
  replace(String, {
    fromCharCode: ofNumbers('fromCharCode'),
    fromCodePoint: ofNumbers('fromCodePoint'),
  });

  const typedArrays = Object.getPrototypeOf(Uint8Array), { isView } = ArrayBuffer;
  const { iterator: iteratorSymbol } = Symbol;

  // The elements of what a typed array is made of or filled with; a buffer, a view or a length as it is.
  function elementsOf(source) {
    if (typeof source !== 'object' || source === null || isView(source) ||
      source instanceof ArrayBuffer ||
      (typeof SharedArrayBuffer === 'function' && source instanceof SharedArrayBuffer)) {
      return source;
    }
    const elements = [];
    if (source[iteratorSymbol] !== undefined && source[iteratorSymbol] !== null) {
      for (const value of source) put(elements, elements.length, toNumber(value));
    } else {
      const length = checkedLength(source);
      for (let at = 0; at < length; at++) put(elements, at, toNumber(source[at]));
    }
    return elements;
  }

  replace(typedArrays, {
    from: (original) => ({
      from(source, change, self) {
        if (change !== undefined) return apply(original, this, [source, change, self]);
        return apply(original, this, [elementsOf(source)]);
      },
    }),
    of: ofNumbers('of'),
  });
  replace(typedArrays.prototype, {
    sort: sortingNumbers('sort'),
    toSorted: sortingNumbers('toSorted'),
    set: (original) => ({
      set(source) {
        if (arguments.length > 1) return apply(original, this, [elementsOf(source), arguments[1]]);
        return apply(original, this, [elementsOf(source)]);
      },
    }),
  });

  for (const name of ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array',
    'Int32Array', 'Uint32Array', 'Float16Array', 'Float32Array', 'Float64Array']) {
    const original = globalThis[name];
    if (typeof original !== 'function') continue;
    const known = function (source, offset, length) {
      if (new.target === undefined) throw new type(`${name} must be called with new`);
      const given = arguments.length > 1 ? [source, offset, length] : [elementsOf(source)];
      return construct(original, arguments.length === 0 ? [] : given, new.target);
    };
    for (const key of ['prototype', 'BYTES_PER_ELEMENT', 'name', 'length']) {
      defineProperty(known, key, descriptor(original, key));
    }
    Object.setPrototypeOf(known, typedArrays);
    defineProperty(original.prototype, 'constructor',
      { value: known, writable: true, configurable: true });
    defineProperty(globalThis, name, { value: known, writable: true, configurable: true });
  }

  // ---- text -------------------------------------------------------------------------------------

  function checkSearch(long, short) {
    if (short.length > 64 && long.length * short.length > SEARCH_MAX) refuse('text to search');
    weigh(long.length);
  }

  function receiver(self, name) {
    if (self === undefined || self === null) {
      throw new type(`String.prototype.${name} called on null or undefined`);
    }
    return typeof self === 'string' ? self : text(self);
  }

  function searching(name) {
    return (original) => ({
      [name](search, position) {
        const long = receiver(this, name);
        // Regular expressions are refused by `includes` and turned into text by the others.
        if (typeof search === 'object' && search !== null && name === 'includes' &&
          search[Symbol.match] !== undefined) {
          throw new type('regexp not supported');
        }
        const short = text(search);
        checkSearch(long, short);
        return arguments.length < 2 ? apply(original, long, [short])
          : apply(original, long, [short, position]);
      },
    });
  }

  // For methods that hand over to their argument when it has a method for it.
  function delegating(name, symbol) {
    return (original) => ({
      [name](pattern, other) {
        if (typeof pattern === 'object' && pattern !== null) {
          if (this === undefined || this === null) receiver(this, name);
          const delegate = pattern[symbol];
          if (delegate !== undefined && delegate !== null) {
            if (name === 'replaceAll' && pattern instanceof RegExp && !pattern.global) {
              throw new type('regexp must have the g flag');
            }
            return apply(delegate, pattern, [this, other]);
          }
        }
        const long = receiver(this, name);
        if (pattern === undefined && name === 'split') return apply(original, long, [undefined, other]);
        const short = text(pattern);
        checkSearch(long, short);
        return apply(original, long, [short, other]);
      },
    });
  }

  const pattern = RegExp, { exec } = RegExp.prototype;
  let marks = null; // made when it is first needed: it is a large table
  function checkMarks(value) {
    if (value.length < MARKS_MAX) return value;
    weigh(value.length);
    if (marks === null) marks = new pattern(`\\p{M}{${MARKS_MAX}}`, 'u');
    if (apply(exec, marks, [value]) !== null) refuse('run of combining marks');
    return value;
  }

  replace(strings, {
    indexOf: searching('indexOf'),
    lastIndexOf: searching('lastIndexOf'),
    includes: searching('includes'),
    split: delegating('split', splitSymbol),
    replace: delegating('replace', replaceSymbol),
    replaceAll: delegating('replaceAll', replaceSymbol),
    normalize: (original) => ({
      normalize(form) {
        return apply(original, checkMarks(receiver(this, 'normalize')), [form]);
      },
    }),
    localeCompare: (original) => ({
      localeCompare(that) {
        return apply(original, checkMarks(receiver(this, 'localeCompare')), [checkMarks(text(that))]);
      },
    }),
  });

  // A function that does what a list of names does: objects have those members, in that order.
  function picking(list) {
    const names = [], length = checkedLength(list);
    for (let at = 0; at < length; at++) {
      const name = list[at];
      const isName = typeof name === 'string' || typeof name === 'number' ||
        name instanceof String || name instanceof Number;
      if (isName && !has(names, text(name))) put(names, names.length, text(name));
    }
    return (key, value) => {
      const isPlain = typeof value === 'object' && value !== null && !isArray(value) &&
        !(value instanceof String) && !(value instanceof Number) && !(value instanceof Boolean);
      if (!isPlain) return value;
      const picked = {};
      for (let at = 0; at < names.length; at++) put(picked, names[at], value[names[at]]);
      return picked;
    };
  }

  function has(list, value) {
    for (let at = 0; at < list.length; at++) if (list[at] === value) return true;
    return false;
  }

  replace(JSON, {
    parse: (original) => ({
      parse(json, reviver) {
        const given = text(json);
        if (given.length > JSON_MAX) refuse('JSON text');
        weigh(given.length);
        return reviver === undefined ? original(given) : original(given, reviver);
      },
    }),
    // Every member counts as a check, as in library.js.
    stringify: (original) => ({
      stringify(value, replacer, space) {
        if (typeof replacer === 'function' || typeof value !== 'object' || value === null) {
          return original(value, replacer, space);
        }
        return isArray(replacer) ? original(value, picking(replacer), space) : native.write(value, space);
      },
    }),
  });

  // ---- collections and iterators ------------------------------------------------------------------
  // Native iterators that never end, and texts that take long to hash, go through these functions one
  // by one, so that whoever reads them in one step can be interrupted.

  replace(Set.prototype, {
    add: (original) => ({ add(value) { return apply(original, this, [value]); } }),
  });
  replace(Map.prototype, {
    set: (original) => ({ set(key, value) { return apply(original, this, [key, value]); } }),
  });

  function stepping(iterator) {
    const { next } = iterator;
    return { next: () => apply(next, iterator, []), return: (value) => iterator.return(value) };
  }

  function combining(name) {
    return (original) => ({
      [name](other) {
        if (typeof other !== 'object' || other === null) return apply(original, this, [other]);
        const { size, has, keys } = other;
        return apply(original, this, [{
          size,
          has: typeof has === 'function' ? (value) => apply(has, other, [value]) : has,
          keys: typeof keys === 'function' ? () => stepping(apply(keys, other, [])) : keys,
        }]);
      },
    });
  }

  const combinations = {};
  for (const name of ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf',
    'isSupersetOf', 'isDisjointFrom']) {
    if (name in Set.prototype) combinations[name] = combining(name);
  }
  replace(Set.prototype, combinations);

  if (typeof Iterator === 'function') {
    replace(Iterator.prototype, {
      drop: (original) => ({
        drop(count) {
          if (typeof this !== 'object' || this === null) return apply(original, this, [count]);
          return apply(original, stepping(this), [count]);
        },
      }),
    });
  }

  replace(Object, {
    fromEntries: () => ({
      fromEntries(entries) {
        const made = {};
        for (const entry of entries) {
          if (typeof entry !== 'object' || entry === null) throw new type('not an object');
          put(made, entry[0], entry[1]);
        }
        return made;
      },
    }),
  });

  replace(Math, {
    random: () => ({
      random() { return native.random(); },
    }),
  });

  replace(String, {
    raw: () => ({
      raw(template, ...values) {
        const { raw } = Object(template), length = toLength(raw.length);
        let out = '';
        for (let at = 0; at < length; at++) {
          out += text(raw[at]);
          if (at + 1 < length && at < values.length) out += text(values[at]);
        }
        return out;
      },
    }),
  });

  // Calls user code from inside the making of every error; nobody needs it.
  delete Error.prepareStackTrace;
})
