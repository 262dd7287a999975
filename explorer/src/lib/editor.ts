// The editor: CodeMirror with our colours, our completion, and marks where the server objects.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, Prec, StateEffect, StateField, type Extension } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet, drawSelection, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { app } from "./state.svelte";

export type Kind = "sql" | "json" | "javascript" | "text";
export interface Mark { from: number; to: number; severity: "error" | "warning" | "info"; message: string }
export interface Options { text: string; kind: Kind; label: string; readonly: boolean; paths: () => string[]; functions: () => string[]; change: (text: string) => void; run: () => void; explain: () => void; save: () => void; stop: () => void; cursor: (at: number) => void }
export interface Handle { set: (text: string) => void; mark: (marks: Mark[]) => void; current: (statement: { start: number; end: number } | undefined) => void; close: () => void }

const KEYWORDS = "select distinct top value from join in as where and or not between like escape exists array group by order asc desc rank offset limit let udf";
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.propertyName, tags.function(tags.variableName), tags.standard(tags.name)], color: "var(--code-name)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

function completeSql(context: CompletionContext, paths: string[], functions: string[]): CompletionResult | null {
  const own = context.matchBefore(/\budf\.\w*$/i);
  if (own) return { from: own.from + 4, options: functions.map((label) => ({ label, type: "function", apply: `${label}(` })), validFor: /^\w*$/ };
  const dotted = context.matchBefore(/\b(\w+)\.[\w.]*$/);
  const text = context.state.doc.toString();
  if (dotted) {
    const options = [...new Set(paths.map((path) => path.replace(/^\//, "").replaceAll("/[]", "").replaceAll("/", ".")).filter(Boolean))];
    const from = dotted.from + dotted.text.indexOf(".") + 1;
    return { from, options: options.map((label) => ({ label, type: "property" })), validFor: /^[\w.]*$/ };
  }
  const word = context.matchBefore(/[@\w]+$/);
  if (!word && !context.explicit) return null;
  const aliases = [...text.matchAll(/\b(?:from|join|as)\s+(\w+)/gi)].map((one) => one[1]!);
  const parameters = [...text.matchAll(/@\w+/g)].map((one) => one[0]);
  const options = [
    ...(app.language?.keywords ?? []).map((label) => ({ label, type: "keyword", boost: 1 })),
    ...(app.language?.functions ?? []).map((one) => ({ label: one.name, type: "function", detail: `${one.signatures[0]?.slice(one.name.length) ?? ""} → ${one.result}`, info: one.says, apply: `${one.name}(` })),
    ...[...new Set(aliases)].map((label) => ({ label, type: "variable", boost: 2 })),
    ...[...new Set(parameters)].map((label) => ({ label, type: "variable" })),
  ];
  return { from: word?.from ?? context.pos, options, validFor: /^[@\w]*$/ };
}

function completeScript(context: CompletionContext): CompletionResult | null {
  const word = context.matchBefore(/[\w.]+$/);
  if (!word && !context.explicit) return null;
  const names = ["getContext()", "getContext().getCollection()", "getContext().getResponse()", "getContext().getRequest()", "getContext().getResponse().setBody()", "getContext().getRequest().getBody()", "__.queryDocuments()", "__.createDocument()", "__.upsertDocument()", "__.replaceDocument()", "__.deleteDocument()", "__.readDocument()", "__.getSelfLink()", "console.log()"];
  return { from: word?.from ?? context.pos, options: names.map((label) => ({ label, type: "function" })) };
}

const hover = hoverTooltip((view, at) => {
  const word = view.state.wordAt(at);
  const name = word ? view.state.sliceDoc(word.from, word.to).toUpperCase() : "";
  const found = app.language?.functions.find((one) => one.name === name);
  if (!word || !found) return null;
  return { pos: word.from, end: word.to, create: () => {
    const dom = document.createElement("div");
    dom.className = "hover";
    dom.textContent = `${found.signatures[0] ?? found.name} → ${found.result}: ${found.says}`;
    return { dom };
  } };
});

// The statement that would run, where there are several: its lines are marked at their edge.
const setCurrent = StateEffect.define<{ start: number; end: number } | undefined>();
const ofCurrent = Decoration.line({ class: "cm-current-statement" });
const currentLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(lines, transaction) {
    for (const effect of transaction.effects) if (effect.is(setCurrent)) {
      const doc = transaction.state.doc, marked = [];
      if (!effect.value) return Decoration.none;
      const last = doc.lineAt(Math.min(effect.value.end, doc.length)).number;
      for (let number = doc.lineAt(Math.min(effect.value.start, doc.length)).number; number <= last; number++) marked.push(ofCurrent.range(doc.line(number).from));
      return Decoration.set(marked);
    }
    return lines.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

function language(options: Options): Extension[] {
  if (options.kind === "json") return [json()];
  if (options.kind === "javascript") return [javascript(), autocompletion({ override: [completeScript] })];
  if (options.kind === "sql") return [sql({ dialect: SQLDialect.define({ keywords: KEYWORDS, types: "", doubleQuotedStrings: true, hashComments: false }), upperCaseKeywords: true }), autocompletion({ override: [(context) => completeSql(context, options.paths(), options.functions())] }), hover];
  return [];
}

/** What a long text would make slow. */
const comforts = (options: Options): Extension[] => (options.kind === "text" ? [] : [foldGutter(), highlightSelectionMatches(), indentOnInput(), bracketMatching(), closeBrackets(), EditorView.lineWrapping, syntaxHighlighting(colours)]);

export function open(parent: HTMLElement, options: Options): Handle {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
  let silent = false;
  const command = (run: () => void) => () => { run(); return true; };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: command(options.run) }, { key: "F5", run: command(options.run) },
          { key: "Mod-Shift-Enter", run: command(options.explain) }, { key: "Mod-s", run: command(options.save) },
        ])),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, { key: "Escape", run: command(options.stop) }, indentWithTab]),
        lineNumbers(), history(), drawSelection(), highlightSpecialChars(), highlightActiveLine(), lintGutter(), comforts(options),
        language(options), currentLines,
        EditorView.contentAttributes.of({ "aria-label": options.label }),
        EditorState.readOnly.of(options.readonly),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !silent) options.change(update.state.doc.toString());
          if (update.selectionSet || update.docChanged) options.cursor(update.state.selection.main.head);
        }),
      ],
    }),
  });
  return {
    set(text) {
      if (text === view.state.doc.toString()) return;
      silent = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      silent = false;
    },
    mark(marks) {
      const length = view.state.doc.length;
      const inside = marks.map((one) => ({ ...one, from: Math.min(one.from, length), to: Math.min(Math.max(one.to, one.from + 1), length) }));
      view.dispatch(setDiagnostics(view.state, inside));
    },
    current: (statement) => view.dispatch({ effects: setCurrent.of(statement) }),
    close: () => view.destroy(),
  };
}
