// What a stored procedure or trigger may call: getContext(), __, console.log and the two-argument
// Error. The file is one function; the Rust side calls it once in every fresh context, hands in
// the native functions below, and keeps the returned driver to itself. User code never sees
// either of them.
//
// Nothing here touches the database. A collection method checks its arguments, writes down what
// is wanted and returns; when the user's function has ended, the Rust side takes the wishes one by
// one (`next`), fulfils them and reports back (`settle`), which runs the user's callback.
//
// native.accept()      may one more operation be queued? counts it if so
// native.open()        the same question without counting
// native.log(text)     appends to the log; false when the log is full
// native.write(value)  JSON text of a value
// native.sees(function, number)  can it see its argument of that number, from 0?
// native.abort(...)    notes the reason of an abort; the interrupt handler then ends the script
(function library(native) {
  'use strict';

  const { apply, construct } = Reflect;
  const { parse } = JSON;
  // Unlike JSON.stringify, this one counts every member as a check of the script's time: a value whose parts
  // are shared may be a thousand bytes to build and years to write.
  const { write, sees } = native;
  const stringify = (value) => write(value);
  const { create, defineProperty, getOwnPropertyDescriptors, defineProperties } = Object;
  const { isInteger } = Number;
  const text = String;
  const isArray = Array.isArray;
  // Built-in methods as plain functions, taken before a script can replace them.
  const method = Function.prototype.bind.bind(Function.prototype.call);
  const startsWith = method(String.prototype.startsWith);
  const endsWith = method(String.prototype.endsWith);
  const indexOf = method(String.prototype.indexOf);
  const slice = method(String.prototype.slice);
  const split = method(String.prototype.split);
  const toLowerCase = method(String.prototype.toLowerCase);

  const BAD_REQUEST = 400;
  const FORBIDDEN = 403;
  const TOO_LARGE = 413;
  const PAGE_SIZE_DEFAULT = 100;

  // The numbers by which the Rust side knows what is wanted.
  const READ = 0, READ_FEED = 1, QUERY = 2, CREATE = 3, UPSERT = 4, REPLACE = 5, DELETE = 6,
    UNSUPPORTED = 7;

  // ---- Error ------------------------------------------------------------------------------------
  // `new Error(number, message)` is how scripts of this API fail on purpose. The native class is
  // kept underneath, so `instanceof`, subclasses and stack traces work as everywhere.

  const NativeError = Error;
  const NumberedError = function Error(first, second) {
    const numbered = arguments.length > 1 && typeof first === 'number';
    const made = construct(NativeError, numbered ? [second] : arguments, new.target || NumberedError);
    if (numbered) made.number = first;
    return made;
  };
  defineProperties(NumberedError, getOwnPropertyDescriptors(NativeError));
  defineProperty(NativeError.prototype, 'constructor',
    { value: NumberedError, writable: true, configurable: true });
  for (const kind of [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
    AggregateError]) {
    Object.setPrototypeOf(kind, NumberedError);
  }
  defineProperty(globalThis, 'Error', { value: NumberedError, writable: true, configurable: true });

  function refuse(message, number) {
    throw new NumberedError(number || BAD_REQUEST, message);
  }

  // ---- state of the one call this context serves -----------------------------------------------

  let selfLink = '', altLink = '', selfItems = '', altItems = '';
  let sizeInMegabytes = '', sizeInMegabytesMax = '';
  let responseLengthMax = 0;
  let logging = false;
  // What a procedure has; triggers get their own when the call begins.
  let request = { Body: property([], false) }, response = { Body: property('', true) };
  let first = null, last = null, running = null; // the queue, and what is being fulfilled

  // A wish is a list, and what the Rust side is handed: it reads the first nine places. All places are filled from
  // the beginning, so nothing that a script puts on a prototype shows through.
  const BY_RID = 1, NAMED = 2, BODY = 3, NEEDS_ID = 4, ETAG = 5, DIRECTIVE = 6, PAGE_SIZE = 7, CONTINUATION = 8,
    CALLBACK = 9, OPTIONS = 10, SHAPE = 11, NEXT = 12;

  function enqueue(wish) {
    if (!native.accept()) return false;
    if (last === null) first = wish; else last[NEXT] = wish;
    last = wish;
    return true;
  }

  function wish(kind, shape, callback) {
    return [kind, false, undefined, undefined, false, undefined, undefined, 0, undefined, callback, undefined, shape, null];
  }

  // ---- arguments --------------------------------------------------------------------------------

  function typeName(value) {
    return value === null ? 'null' : isArray(value) ? 'array' : typeof value;
  }

  function checkCount(name, wanted, given) {
    if (given < wanted) {
      refuse(`${name} needs at least ${wanted} argument${wanted === 1 ? '' : 's'} but got ${given}.`);
    }
  }

  // `options` may be left out, so the callback may arrive in its place. Both are put into the wish.
  function checkOptions(options, callback, wanted) {
    if (typeof options === 'function' && (callback === undefined || callback === null)) {
      callback = options;
      options = undefined;
    }
    if (options !== undefined && options !== null && typeof options !== 'object') {
      refuse(`Parameter 'options' must be an object, not ${typeName(options)}.`);
    }
    if (callback !== undefined && callback !== null && typeof callback !== 'function') {
      refuse(`Parameter 'callback' must be a function, not ${typeName(callback)}.`);
    }
    wanted[OPTIONS] = options || {};
    wanted[CALLBACK] = callback || undefined;
    return wanted;
  }

  function optionalText(value) {
    return value === undefined || value === null || value === '' ? undefined : text(value);
  }

  function pageSize(options) {
    const size = options.pageSize;
    if (size === undefined || size === null || size === -1 || size === 0) return PAGE_SIZE_DEFAULT;
    if (!isInteger(size) || size < 0) refuse("Option 'pageSize' must be a positive whole number or -1.");
    return size;
  }

  function directive(options) {
    const action = optionalText(options.indexAction);
    if (action === undefined) return undefined;
    const known = toLowerCase(action);
    if (known !== 'default' && known !== 'include' && known !== 'exclude') {
      refuse(`Option 'indexAction' must be 'default', 'include' or 'exclude', not '${action}'.`);
    }
    return known;
  }

  // ---- links ------------------------------------------------------------------------------------

  // Takes `dbs/x/colls/y` or `dbs/x/colls/y/docs/z` apart; null when the link has another shape.
  function linkParts(link, count) {
    if (typeof link !== 'string') return null;
    const parts = split(endsWith(link, '/') ? slice(link, 0, -1) : link, '/');
    if (parts.length !== count) return null;
    for (let at = 0; at < count; at++) if (parts[at] === '') return null;
    const shaped = toLowerCase(parts[0]) === 'dbs' && toLowerCase(parts[2]) === 'colls' &&
      (count === 4 || toLowerCase(parts[4]) === 'docs');
    return shaped ? parts : null;
  }

  // Rid of the container in the link, or its name? Refuses links of other containers.
  function isRidLink(parts, link) {
    const self = linkParts(selfLink, 4), alt = linkParts(altLink, 4);
    if (parts[1] === alt[1] && parts[3] === alt[3]) return false;
    if (parts[1] === self[1] && parts[3] === self[3]) return true;
    return refuse(`The link '${link}' is outside the current container.`);
  }

  function checkCollectionLink(link) {
    if (link === selfLink || link === altLink) return;
    const parts = linkParts(link, 4);
    if (parts === null) refuse(`The collection link '${text(link)}' is malformed.`);
    isRidLink(parts, link);
  }

  function checkItemLink(link, wanted) {
    if (typeof link === 'string') {
      // The two usual spellings, without taking the link apart.
      const byName = startsWith(link, altItems);
      if (byName || startsWith(link, selfItems)) {
        let id = slice(link, byName ? altItems.length : selfItems.length);
        if (endsWith(id, '/')) id = slice(id, 0, -1);
        if (id !== '' && indexOf(id, '/') < 0) {
          wanted[BY_RID] = !byName;
          wanted[NAMED] = id;
          return;
        }
      }
    }
    const parts = linkParts(link, 6);
    if (parts === null) refuse(`The document link '${text(link)}' is malformed.`);
    wanted[BY_RID] = isRidLink(parts, link);
    wanted[NAMED] = parts[5];
  }

  // ---- bodies -----------------------------------------------------------------------------------

  // The body as JSON text, written down now: later changes of the object do not matter.
  function bodyText(body) {
    if (typeof body === 'string') return body;
    if (typeof body !== 'object' || body === null || isArray(body)) {
      refuse(`Parameter 'body' must be an object or its JSON text, not ${typeName(body)}.`);
    }
    return stringify(body);
  }

  function parsedBody(json) {
    let value;
    try {
      value = parse(json);
    } catch (error) {
      refuse(`Parameter 'body' is not valid JSON text: ${error.message}`);
    }
    if (typeof value !== 'object' || value === null || isArray(value)) {
      refuse(`Parameter 'body' must be an object or its JSON text, not ${typeName(value)}.`);
    }
    return value;
  }

  // Sets body and needsId. The id itself is put in by the Rust side, which owns the id source;
  // here a missing one is only noticed, in a copy.
  function takeBody(wanted, body, fillId) {
    const json = bodyText(body);
    const plain = typeof body === 'object' && typeof body.toJSON !== 'function';
    const value = plain ? body : parsedBody(json);
    const id = value.id;
    if (fillId && (id === undefined || id === null || id === '')) {
      const copy = plain ? parse(json) : value;
      delete copy.id;
      wanted[BODY] = stringify(copy);
      wanted[NEEDS_ID] = true;
    } else {
      wanted[BODY] = json;
    }
  }

  // ---- the collection ---------------------------------------------------------------------------

  const ITEM = 0, FEED = 1, NOTHING = 2; // shapes of the callback

  function queryText(query) {
    if (typeof query === 'string') return stringify({ query });
    if (typeof query === 'object' && query !== null && !isArray(query)) {
      if (typeof query.query !== 'string') {
        refuse(`Property 'query' of parameter 'query' must be text, not ${typeName(query.query)}.`);
      }
      return stringify({ query: query.query, parameters: query.parameters || [] });
    }
    return refuse(`Parameter 'query' must be text or an object, not ${typeName(query)}.`);
  }

  // Queues a query whose options and callback are in the wish; shared with the JavaScript query API.
  function enqueueQuery(wanted, json) {
    const options = wanted[OPTIONS];
    wanted[BODY] = json;
    wanted[PAGE_SIZE] = pageSize(options);
    wanted[CONTINUATION] = optionalText(options.continuation);
    return enqueue(wanted);
  }

  const collection = {
    getSelfLink() { return selfLink; },
    getAltLink() { return altLink; },

    readDocument(link, options, callback) {
      checkCount('readDocument', 1, arguments.length);
      const wanted = checkOptions(options, callback, wish(READ, ITEM));
      checkItemLink(link, wanted);
      wanted[ETAG] = optionalText(wanted[OPTIONS].ifNoneMatch);
      return enqueue(wanted);
    },

    readDocuments(link, options, callback) {
      checkCount('readDocuments', 1, arguments.length);
      const wanted = checkOptions(options, callback, wish(READ_FEED, FEED));
      checkCollectionLink(link);
      wanted[PAGE_SIZE] = pageSize(wanted[OPTIONS]);
      wanted[CONTINUATION] = optionalText(wanted[OPTIONS].continuation);
      return enqueue(wanted);
    },

    queryDocuments(link, query, options, callback) {
      checkCount('queryDocuments', 2, arguments.length);
      const wanted = checkOptions(options, callback, wish(QUERY, FEED));
      checkCollectionLink(link);
      return enqueueQuery(wanted, queryText(query));
    },

    createDocument(link, body, options, callback) {
      checkCount('createDocument', 2, arguments.length);
      const wanted = checkOptions(options, callback, wish(CREATE, ITEM));
      checkCollectionLink(link);
      wanted[DIRECTIVE] = directive(wanted[OPTIONS]);
      takeBody(wanted, body, wanted[OPTIONS].disableAutomaticIdGeneration !== true);
      return enqueue(wanted);
    },

    upsertDocument(link, body, options, callback) {
      checkCount('upsertDocument', 2, arguments.length);
      const wanted = checkOptions(options, callback, wish(UPSERT, ITEM));
      checkCollectionLink(link);
      wanted[DIRECTIVE] = directive(wanted[OPTIONS]);
      wanted[ETAG] = optionalText(wanted[OPTIONS].etag);
      takeBody(wanted, body, wanted[OPTIONS].disableAutomaticIdGeneration !== true);
      return enqueue(wanted);
    },

    replaceDocument(link, body, options, callback) {
      checkCount('replaceDocument', 2, arguments.length);
      const wanted = checkOptions(options, callback, wish(REPLACE, ITEM));
      checkItemLink(link, wanted);
      wanted[DIRECTIVE] = directive(wanted[OPTIONS]);
      wanted[ETAG] = optionalText(wanted[OPTIONS].etag);
      takeBody(wanted, body, false);
      return enqueue(wanted);
    },

    deleteDocument(link, options, callback) {
      checkCount('deleteDocument', 1, arguments.length);
      const wanted = checkOptions(options, callback, wish(DELETE, NOTHING));
      checkItemLink(link, wanted);
      wanted[ETAG] = optionalText(wanted[OPTIONS].etag);
      return enqueue(wanted);
    },
  };

  // Attachments are an abandoned feature of the service: the methods exist and always fail.
  for (const name of ['readAttachment', 'readAttachments', 'queryAttachments', 'createAttachment',
    'upsertAttachment', 'replaceAttachment', 'deleteAttachment']) {
    collection[name] = function (...given) {
      checkCount(name, 1, given.length);
      const tail = given[given.length - 1];
      const shape = name === 'deleteAttachment' ? NOTHING : ITEM;
      return enqueue(wish(UNSUPPORTED, shape, typeof tail === 'function' ? tail : undefined));
    };
  }

  // ---- request and response ---------------------------------------------------------------------

  // A property map: getX, setX and appendX for every property X it is given, and the three general
  // forms. Setters of read-only properties do not exist; a map without any writable property has
  // no general setter either.
  function propertyMap(properties) {
    const map = {};
    let writable = false;

    function read(property) {
      if (property.pending) {
        property.value = parse(property.value);
        property.pending = false;
      }
      return property.value;
    }
    function checkLength(name, value) {
      if (value === undefined || value === null || responseLengthMax === 0) return;
      const length = typeof value === 'object' ? stringify(value).length : text(value).length;
      if (length > responseLengthMax) {
        refuse(`The value of '${name}' is larger than ${responseLengthMax} characters.`, TOO_LARGE);
      }
    }
    function writableProperty(name) {
      const property = properties[name];
      if (property === undefined) refuse(`'${text(name)}' is not a property that can be set.`);
      if (!property.writable) refuse(`'${name}' is read-only.`, FORBIDDEN);
      return property;
    }
    function set(name, value) {
      const property = writableProperty(name);
      checkLength(name, value);
      property.value = value;
      property.pending = false;
      property.changed = true;
    }
    function append(name, value) {
      const old = read(writableProperty(name));
      set(name, old === undefined || old === null ? value : old + value);
    }

    for (const name in properties) {
      map['get' + name] = function () { return read(properties[name]); };
      if (properties[name].writable) {
        writable = true;
        map['set' + name] = function (value) { set(name, value); };
        map['append' + name] = function (value) { append(name, value); };
      }
    }
    map.getValue = function (name) {
      return properties[name] === undefined ? undefined : read(properties[name]);
    };
    if (writable) {
      map.setValue = set;
      map.appendValue = append;
    }
    return map;
  }

  function property(value, writable, pending) {
    return { value, writable, pending: pending === true, changed: false };
  }

  // ---- context, __ and console ------------------------------------------------------------------

  const context = {
    getCollection() { return collection; },
    abort(error) {
      const found = describe(error);
      native.abort(found[0], found[1], found[2]);
      for (;;) { /* ends at the next interrupt check, which no script can catch */ }
    },
  };
  const shorthand = create(collection);

  function formatted(given) {
    let at = 1, out = '', from = 0;
    const format = given[0];
    for (;;) {
      const percent = indexOf(format, '%', from);
      if (percent < 0) return out + slice(format, from);
      out += slice(format, from, percent);
      const letter = format[percent + 1];
      if (letter === '%') out += '%';
      else if (letter === 's') out += at < given.length ? text(given[at++]) : '%s';
      else { out += '%'; from = percent + 1; continue; }
      from = percent + 2;
    }
  }

  const console = {
    log(...given) {
      if (!logging) return;
      if (given.length === 0) refuse('console.log needs at least 1 argument but got 0.');
      if (given.length > 1 && typeof given[0] !== 'string') {
        refuse('console.log with several arguments needs text as the first one.');
      }
      if (!native.log(given.length > 1 ? formatted(given) : text(given[0]))) {
        refuse('The script log is full.', TOO_LARGE);
      }
    },
  };

  // Makes request and response reachable; without a response there is no getResponse either.
  function offer(requestProperties, responseProperties) {
    const requestMap = propertyMap(requestProperties);
    context.getRequest = function () { return requestMap; };
    shorthand.request = requestMap;
    if (responseProperties === null) {
      delete context.getResponse;
      delete shorthand.response;
      return;
    }
    const responseMap = propertyMap(responseProperties);
    context.getResponse = function () { return responseMap; };
    shorthand.response = responseMap;
  }
  offer(request, response);

  function define(name, value) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  define('console', console);
  define('getContext', function getContext() { return context; });
  define('__', shorthand);

  // ---- the driver: what the Rust side calls -----------------------------------------------------

  // What an uncaught value looks like: its number, its text, its stack. Never throws.
  function describe(error) {
    try {
      if (typeof error !== 'object' || error === null) {
        return [undefined, typeof error === 'symbol' ? 'Symbol' : text(error), ''];
      }
      const number = isInteger(error.number) && error.number >= 0 ? error.number : undefined;
      const stack = typeof error.stack === 'string' ? error.stack : '';
      if (error instanceof NativeError) return [number, text(error), stack];
      const message = typeof error.message === 'string' ? error.message : stringify(error);
      return [number, text(message), stack];
    } catch (inner) {
      return [undefined, 'an error that cannot be shown', ''];
    }
  }

  function operationError(number, message) {
    const body = stringify({ Errors: [message] });
    const error = new NumberedError(number, body);
    error.body = body;
    return error;
  }

  let procedureArguments = [];
  let globalsBefore = 0;
  const functions = create(null);
  const { getOwnPropertyNames } = Object;

  return {
    describe,
    // For the JavaScript query API, which is loaded as a second file on top of this one.
    parts: { collection, native, refuse, checkOptions, newQuery: () => wish(QUERY, FEED), enqueueQuery, CALLBACK, context, shorthand },

    // Says what this context is used for. Everything here is data of the call; `given` are the arguments of a procedure.
    begin(self, alt, megabytes, megabytesMax, lengthMax, isLogging, given) {
      selfLink = self;
      altLink = alt;
      selfItems = selfLink + (endsWith(selfLink, '/') ? 'docs/' : '/docs/');
      altItems = altLink + (endsWith(altLink, '/') ? 'docs/' : '/docs/');
      sizeInMegabytes = megabytes;
      sizeInMegabytesMax = megabytesMax;
      responseLengthMax = lengthMax;
      logging = isLogging;
      if (given === undefined) return;
      procedureArguments = parse(given);
      if (!isArray(procedureArguments)) {
        procedureArguments = procedureArguments === null ? [] : [procedureArguments];
      }
      request.Body.value = procedureArguments;
    },

    // The rest for a trigger: the write that it belongs to.
    beginTrigger(call) {
      request = {
        Body: property(call.requestBody, call.kind === 'pre', true),
        OperationType: property(call.operationType, false),
      };
      response = call.kind === 'pre' ? null : {
        Body: property(call.responseBody, true, call.responseBody !== ''),
        ResourceQuotaCurrentUsage: property(call.quotaUsage, false),
        MaxResourceQuota: property(call.quotaMax, false),
      };
      offer(request, response);
    },

    // For bodies that are a script with several functions: the first global function that was
    // not there before is the one to call.
    markGlobals() {
      globalsBefore = getOwnPropertyNames(globalThis).length;
    },
    firstNewFunction() {
      const names = getOwnPropertyNames(globalThis);
      for (let at = globalsBefore; at < names.length; at++) {
        if (typeof globalThis[names[at]] === 'function') return globalThis[names[at]];
      }
      return undefined;
    },

    // Runs the user's function to its end.
    start(body) {
      if (typeof body !== 'function') refuse('The script body is not a function.');
      apply(body, undefined, procedureArguments);
    },

    // User-defined functions: no context, only values. `undefined` in and out stays undefined.
    hideContext() {
      delete globalThis.getContext;
      delete globalThis.__;
    },
    addFunction(name, body) {
      if (typeof body !== 'function') refuse('The script body is not a function.');
      functions[name] = body;
    },
    invoke(name, ...values) {
      for (let at = 0; at < values.length; at++) {
        if (values[at] !== undefined) values[at] = parse(values[at]);
      }
      return stringify(apply(functions[name], undefined, values));
    },

    // The next wish, or undefined when there is none.
    next() {
      running = first;
      if (running === null) return undefined;
      first = running[NEXT];
      if (first === null) last = null;
      return running;
    },

    // How the wish ended; runs the callback.
    settle(number, json, status, continuation) {
      const callback = running[CALLBACK], shape = running[SHAPE];
      running = null;
      const info = {
        currentCollectionSizeInMB: sizeInMegabytes, maxCollectionSizeInMB: sizeInMegabytesMax,
      };
      if (number !== 0) {
        const error = operationError(number, json);
        if (callback === undefined) throw error;
        if (shape === NOTHING) callback(error, info); else callback(error, undefined, info);
        return;
      }
      if (callback === undefined) return;
      if (shape === FEED) {
        if (continuation !== undefined) info.continuation = continuation;
        callback(undefined, parse(json), info);
        return;
      }
      if (status === 304) info.notModified = true; else info.statusCode = status;
      if (shape === NOTHING) callback(undefined, info);
      // An item that the callback cannot see is not read.
      else callback(undefined, json === undefined || !sees(callback, 1) ? undefined : parse(json), info);
    },

    // The body the client gets, as JSON text; undefined when a trigger left it alone.
    responseBody() {
      if (response === null || !(response.Body.changed || isProcedure())) return undefined;
      const json = stringify(response.Body.value);
      return json === undefined ? '""' : json;
    },

    // The item a pre-trigger wants written, as JSON text; undefined when it set none.
    requestBody() {
      if (request === null || !request.Body.changed) return undefined;
      const value = request.Body.value;
      const json = typeof value === 'string' ? value : stringify(value);
      parsedBody(json === undefined ? 'null' : json);
      return json;
    },
  };

  function isProcedure() {
    return request.OperationType === undefined;
  }
})
