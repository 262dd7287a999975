import { texts } from "./texts";

// Where in the text of a query a rule looks.
const PLACES: Record<string, RegExp> = { QA1000: /\bARRAY_CONTAINS\b/i, QA1001: /\bDISTINCT\b/i, QA1002: /(?<!_)\bCONTAINS\b/i, QA1003: /\b(STARTSWITH|STRINGEQUALS)\b/i, QA1004: /\bENDSWITH\b/i, QA1005: /\bGROUP\s+BY\b/i, QA1006: /\b(UPPER|LOWER)\b/i, QA1007: /\bGetCurrentDateTime\b/i, QA1008: /\bGetCurrentTicks\b/i, QA1009: /\bGetCurrentTimestamp\b/i };

/** The part of a query that a rule is about; the whole where it cannot be told. */
export function placeOf(rule: string, text: string): { from: number; to: number } {
  const found = PLACES[rule]?.exec(text);
  return found ? { from: found.index, to: found.index + found[0].length } : { from: 0, to: text.length };
}

// The service's rules of advice for queries, in a sentence each.
export const RULES = texts.rules;
