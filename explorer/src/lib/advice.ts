// What the server's advisor says: GET _armilla/advice.

export interface AdvisedStep { shape: string; operation: string; container: string; times: number; units: number; ranges: number; why: string }
export interface AdvisedRequest { title: string; head: string; steps: AdvisedStep[]; times: number; unitsBefore: number; unitsAfter: number; measured: number | null }
export interface Finding { id: string; rule: string; kind: "change" | "watch"; title: string; reason: string; database: string; container: string; page: string; savedUnits: number | null; savedUnitsPerDay: number | null; savedShare: number | null; costUnits: number; storageBytes: number; confidence: string; confidenceReason: string; provedUnits?: number | null; requests: AdvisedRequest[]; apply: { what: string; title: string; language: string; text: string }[] }
export interface Point { name: string; findings: string[]; unitsAfter: number; savedShare: number; storageBytes: number; changes: number }
export interface Workload { title: string; head: string; times: number; units: number; share: number; steps: AdvisedStep[]; findings: string[] }
export interface Advice { version: number; state: string; says: string; observed: { requests: number; seconds: number; since: number; requestUnits: number; unitsPerDay: number; shapes: number; shapesLeftOut: number; requestsLeftOut: number }; point: string; points: Point[]; findings: Finding[]; praise: { title: string; database: string; container: string }[]; workload: Workload[] }

/** Findings of a choice, by what they save a day; what is only to be watched comes last. */
export function sorted(findings: Finding[], only?: string[]): Finding[] {
  const wanted = only ? findings.filter((one) => one.kind === "watch" || only.includes(one.id)) : findings;
  const worth = (one: Finding) => (one.kind === "watch" ? -1 : (one.savedUnitsPerDay ?? 0));
  return [...wanted].sort((a, b) => worth(b) - worth(a));
}
