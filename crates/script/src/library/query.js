// The JavaScript query API: __.filter, map, pluck, sortBy, sortByDescending, flatten, unwind and
// chain()….value(). Every call is one query for all items of the logical partition, a page at a
// time; the steps are then applied to the page here, in JavaScript. All calls return
// { isAccepted }, never a plain boolean.
(function query(parts) {
  'use strict';

  const { collection, native, refuse, checkOptions, newQuery, enqueueQuery, CALLBACK, context } = parts;
  const isArray = Array.isArray;
  const { write } = native; // as in library.js
  const stringify = (value) => write(value);
  const codePointAt = Function.prototype.call.bind(String.prototype.codePointAt);
  const EVERYTHING = stringify({ query: 'SELECT * FROM root' });

  // ---- order ------------------------------------------------------------------------------------
  // The query engine's order of values: undefined, null, booleans, numbers, text, arrays, objects.

  function rank(value) {
    if (value === undefined) return 0;
    if (value === null) return 1;
    switch (typeof value) {
      case 'boolean': return 2;
      case 'number': return 3;
      case 'string': return 4;
      default: return isArray(value) ? 5 : 6;
    }
  }

  // By code points, which is the order of UTF-8 bytes and differs from `<` beyond the BMP.
  function compareText(a, b) {
    const end = a.length < b.length ? a.length : b.length;
    for (let at = 0; at < end; at++) {
      if (a[at] !== b[at]) return codePointAt(a, at) - codePointAt(b, at);
    }
    return a.length - b.length;
  }

  function compare(a, b) {
    const kind = rank(a);
    if (kind !== rank(b)) return kind - rank(b);
    if (kind === 4) return compareText(a, b);
    if (kind === 2 || kind === 3) return a < b ? -1 : a > b ? 1 : 0;
    return 0;
  }

  // A merge sort of our own: stable, and it can be interrupted between any two comparisons.
  function sorted(rows, keyOf, sign) {
    let from = [];
    for (let at = 0; at < rows.length; at++) from[at] = { key: keyOf(rows[at]), row: rows[at] };
    for (let width = 1; width < rows.length; width *= 2) {
      const to = [];
      for (let start = 0; start < rows.length; start += 2 * width) {
        const middle = start + width < rows.length ? start + width : rows.length;
        const end = middle + width < rows.length ? middle + width : rows.length;
        let left = start, right = middle;
        for (let at = start; at < end; at++) {
          const takeLeft = right >= end ||
            (left < middle && sign * compare(from[left].key, from[right].key) <= 0);
          to[at] = takeLeft ? from[left++] : from[right++];
        }
      }
      from = to;
    }
    for (let at = 0; at < from.length; at++) from[at] = from[at].row;
    return from;
  }

  // ---- steps ------------------------------------------------------------------------------------
  // Each maker checks its arguments and returns the step: a function from rows to rows. `given`
  // is the argument list; makers that take optional arguments say how many they used.

  function needFunction(name, what, value) {
    if (typeof value !== 'function') refuse(`${name} needs a function as ${what}.`);
    return value;
  }

  function kept(rows, change) {
    const out = [];
    for (let at = 0; at < rows.length; at++) {
      const value = change(rows[at]);
      if (value !== undefined) out[out.length] = value;
    }
    return out;
  }

  function flattened(rows, shallow, out) {
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at];
      if (!isArray(row)) out[out.length] = row;
      else if (shallow) for (let inner = 0; inner < row.length; inner++) out[out.length] = row[inner];
      else flattened(row, false, out);
    }
    return out;
  }

  // As concat does: an array is taken element by element.
  function append(out, value) {
    if (!isArray(value)) out[out.length] = value;
    else for (let at = 0; at < value.length; at++) out[out.length] = value[at];
  }

  const makers = {
    filter(given) {
      const predicate = needFunction('filter', 'its predicate', given[0]);
      return { used: 1, step: (rows) => kept(rows, (row) => predicate(row) ? row : undefined) };
    },
    map(given) {
      const change = needFunction('map', 'its transformation', given[0]);
      return { used: 1, step: (rows) => kept(rows, change) };
    },
    pluck(given) {
      const name = given[0];
      if (typeof name !== 'string' || name === '') refuse('pluck needs the name of a property.');
      return {
        used: 1,
        step: (rows) => kept(rows, (row) => row === null || row === undefined ? undefined : row[name]),
      };
    },
    sortBy(given) {
      const key = needFunction('sortBy', 'its key', given[0]);
      return { used: 1, step: (rows) => sorted(rows, key, 1) };
    },
    sortByDescending(given) {
      const key = needFunction('sortByDescending', 'its key', given[0]);
      return { used: 1, step: (rows) => sorted(rows, key, -1) };
    },
    flatten(given) {
      const shallow = given[0] === true;
      return {
        used: typeof given[0] === 'boolean' ? 1 : 0,
        step: (rows) => flattened(rows, shallow, []),
      };
    },
    unwind(given) {
      const inner = needFunction('unwind', 'its selector', given[0]);
      if (inner.length !== 1) refuse('The selector of unwind takes one argument.');
      // A second function is the result function unless it is the last argument and a callback.
      const result = typeof given[1] === 'function' && given[1].length >= 2 ? given[1] : undefined;
      if (result === undefined && typeof given[1] === 'function' && given.length > 2) {
        refuse('The result function of unwind takes two arguments.');
      }
      return {
        used: result === undefined ? 1 : 2,
        step(rows) {
          const out = [];
          for (let at = 0; at < rows.length; at++) {
            const elements = inner(rows[at]);
            if (!isArray(elements)) continue;
            for (let nth = 0; nth < elements.length; nth++) {
              append(out, result === undefined ? elements[nth] : result(rows[at], elements[nth]));
            }
          }
          return out;
        },
      };
    },
  };

  // ---- running ----------------------------------------------------------------------------------

  function appendToResponse(rows) {
    context.getResponse().appendBody(stringify(rows));
  }

  function execute(steps, options, callback) {
    const wanted = checkOptions(options, callback, newQuery());
    const userCallback = wanted[CALLBACK];
    if (userCallback === undefined && context.getResponse === undefined) {
      refuse('A callback is needed where there is no response to write to.');
    }
    wanted[CALLBACK] = function (error, rows, info) {
      if (error) {
        if (userCallback === undefined) throw error;
        userCallback(error, undefined, info);
        return;
      }
      for (let at = 0; at < steps.length; at++) rows = steps[at](rows);
      if (userCallback === undefined) appendToResponse(rows);
      else userCallback(undefined, rows, info);
    };
    return { isAccepted: enqueueQuery(wanted, EVERYTHING) };
  }

  // A chain remembers its steps; `value` runs them. Once a link was refused, the rest does nothing.
  function chain(steps, isAccepted) {
    const link = { isAccepted };
    for (const name in makers) {
      link[name] = function (...given) {
        const made = makers[name](given);
        for (let at = made.used; at < given.length; at++) {
          if (given[at] !== undefined) refuse(`${name} takes options and callback only outside a chain; give them to value.`);
        }
        const more = [];
        for (let at = 0; at < steps.length; at++) more[at] = steps[at];
        more[steps.length] = made.step;
        return chain(more, isAccepted && native.open());
      };
    }
    link.value = function (options, callback) {
      if (!isAccepted) return { isAccepted: false };
      return execute(steps, options, callback);
    };
    return link;
  }

  for (const name in makers) {
    collection[name] = function (...given) {
      const made = makers[name](given);
      return execute([made.step], given[made.used], given[made.used + 1]);
    };
  }
  collection.chain = function () { return chain([], native.open()); };
  // Captured variables need no help here: predicates run where they were written.
  collection.proxy = function (captures) { return captures; };
})
