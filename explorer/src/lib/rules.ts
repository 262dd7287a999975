// Where in the text of a query a rule looks.
const PLACES: Record<string, RegExp> = { QA1000: /\bARRAY_CONTAINS\b/i, QA1001: /\bDISTINCT\b/i, QA1002: /(?<!_)\bCONTAINS\b/i, QA1003: /\b(STARTSWITH|STRINGEQUALS)\b/i, QA1004: /\bENDSWITH\b/i, QA1005: /\bGROUP\s+BY\b/i, QA1006: /\b(UPPER|LOWER)\b/i, QA1007: /\bGetCurrentDateTime\b/i, QA1008: /\bGetCurrentTicks\b/i, QA1009: /\bGetCurrentTimestamp\b/i };

/** The part of a query that a rule is about; the whole where it cannot be told. */
export function placeOf(rule: string, text: string): { from: number; to: number } {
  const found = PLACES[rule]?.exec(text);
  return found ? { from: found.index, to: found.index + found[0].length } : { from: 0, to: text.length };
}

// The service's rules of advice for queries, in a sentence each.
export const RULES: Record<string, string> = {
  QA1000: "ARRAY_CONTAINS with a partial match looks into every element; EXISTS over the array can use the index.",
  QA1001: "DISTINCT together with JOIN removes the copies that the join made; EXISTS makes none.",
  QA1002: "CONTAINS goes through all values of the path; STARTSWITH, a full-text index or a property of its own is cheaper.",
  QA1003: "STARTSWITH or StringEquals without regard to case goes through all values; a computed property in lower case is found at once.",
  QA1004: "ENDSWITH goes through all values of the path; a computed property of the text reversed is found at once.",
  QA1005: "GROUP BY of an expression works it out for each item; a computed property is worked out once, when the item is written.",
  QA1006: "UPPER or LOWER of a property keeps its index from being used; a computed property can be indexed.",
  QA1007: "GetCurrentDateTime differs for every item that is looked at: GetCurrentDateTimeStatic is worked out once, and an index can serve it.",
  QA1008: "GetCurrentTicks differs for every item that is looked at: GetCurrentTicksStatic is worked out once, and an index can serve it.",
  QA1009: "GetCurrentTimestamp differs for every item that is looked at: GetCurrentTimestampStatic is worked out once, and an index can serve it.",
};
