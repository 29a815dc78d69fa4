/** The pieces of code that are shown in colours: comments, strings, numbers, the words of a language, names of keys. */
export type Kind = "comment" | "string" | "number" | "word" | "key";

export interface Piece {
  kind: Kind;
  from: number;
  to: number;
}

const WORDS: Record<string, string> = {
  python:
    "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield",
  script:
    "async await break case catch class const continue default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private public readonly return static super switch this throw true try type typeof undefined var void while yield",
  shell:
    "case do done elif else esac export fi for function if in local return set then until while cd echo exit sudo true false",
  sql: "and as asc between by case create delete desc distinct drop else end exists false from group having in index inner insert into is join left limit not null offset on or order primary key references returning select set table then true union unique update values when where with",
  c: "abstract auto bool break case catch char class const constexpr continue def default defer delete do double else enum extends extern false final finally float fn for func go goto if impl implements import in int interface let long loop match mod module move mut namespace new nil null package private protected pub public range return self short signed sizeof static struct super switch template this throw throws trait true try type typedef union unsafe unsigned use using var virtual void volatile where while",
  data: "true false null yes no on off",
};

const LINES = { hash: "#.*", slash: "//.*|/\\*[^]*?(?:\\*/|$(?![^]))", dash: "--.*|/\\*[^]*?(?:\\*/|$(?![^]))" };
const QUOTED = `"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?`;
const TRIPLE = `"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^]))`;
const TICKED = "`(?:[^`\\\\]|\\\\[^])*`?";
const NUMBER = "\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b";
const NAME = "[A-Za-z_$][\\w$]*";

interface Grammar {
  pattern: RegExp;
  words: ReadonlySet<string>;
  ignoresCase?: boolean;
}

function grammar(comment: string, strings: string, words: string, more = "", key = ""): Grammar {
  const groups = { comment, key, string: strings, more, number: NUMBER, name: NAME };
  const parts = Object.entries(groups).flatMap(([name, part]) => (part ? [`(?<${name}>${part})`] : []));
  return { pattern: new RegExp(parts.join("|"), "gm"), words: new Set((WORDS[words] ?? "").split(" ")) };
}

const GRAMMARS: Record<string, () => Grammar> = {
  python: () => grammar(LINES.hash, `${TRIPLE}|${QUOTED}`, "python"),
  script: () => grammar(LINES.slash, `${QUOTED}|${TICKED}`, "script"),
  c: () => grammar(LINES.slash, `"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.[^'\\n]{0,8})'`, "c"),
  // A hash begins a comment only where a word could begin: not in `$#` or `a#b`.
  shell: () => grammar("(?<![^\\s;&|(])#.*", QUOTED, "shell", "", "(?<=^|\\s)--?[a-zA-Z][\\w-]*"),
  sql: () => ({ ...grammar(LINES.dash, QUOTED, "sql"), ignoresCase: true }),
  json: () => grammar("//.*", '"(?:[^"\\\\\\n]|\\\\.)*"?', "data", "", '"(?:[^"\\\\\\n]|\\\\.)*"(?=\\s*:)'),
  yaml: () => grammar("(?<!\\S)#.*", QUOTED, "data", "", "^[ \\t]*(?:- )?[\\w.$/-]+(?=:(?:\\s|$))"),
  toml: () =>
    grammar(LINES.hash, `${TRIPLE}|${QUOTED}`, "data", "", '^[ \\t]*[\\w."-]+(?=[ \\t]*=)|^[ \\t]*\\[.*\\][ \\t]*$'),
  css: () =>
    grammar(
      "/\\*[^]*?(?:\\*/|$(?![^]))",
      QUOTED,
      "",
      "#[\\da-fA-F]{3,8}\\b",
      "(?:--)?[a-z-]{1,40}(?=[ \\t]*:)|@[a-z-]{1,40}",
    ),
  markup: () => grammar("<!--[^]*?(?:-->|$(?![^]))", `(?<==[ \\t]?)(?:${QUOTED})`, "", "", "</?[A-Za-z][\\w:.-]*|/?>"),
};

const NAMES: Record<string, string> = {
  python: "python py python3",
  script: "script javascript js jsx mjs cjs typescript ts tsx php",
  c: "c h cpp cc hpp c++ cs csharp java kotlin kt go golang rust rs swift scala dart zig",
  shell: "shell sh bash zsh console terminal dockerfile makefile ruby rb perl r",
  sql: "sql sqlite postgres postgresql",
  json: "json json5 jsonl jsonc",
  yaml: "yaml yml",
  toml: "toml ini cfg conf properties",
  css: "css scss less",
  markup: "markup html xml svg xhtml vue htm",
};
const FAMILY = new Map(
  Object.entries(NAMES).flatMap(([family, names]) => names.split(" ").map((name) => [name, family])),
);
const made = new Map<string, Grammar>();

/** More than this is shown without colours: a person does not read it. */
const MAX_CHARS = 60_000;

/** The pieces of a text in a language, in order; none for a language that is not known. */
export function piecesOf(text: string, language: string): Piece[] {
  const family = FAMILY.get(language.toLowerCase());
  if (family === undefined || text.length > MAX_CHARS) return [];
  const { pattern, words, ignoresCase } = made.get(family) ?? remember(family);
  const pieces: Piece[] = [];
  for (const match of text.matchAll(pattern)) {
    const { comment, key, string, more, number, name } = match.groups ?? {};
    const isWord = name !== undefined && words.has(ignoresCase ? name.toLowerCase() : name);
    const kind: Kind | null =
      comment !== undefined
        ? "comment"
        : key !== undefined
          ? "key"
          : string !== undefined
            ? "string"
            : (number ?? more) !== undefined
              ? "number"
              : isWord
                ? "word"
                : null;
    if (kind !== null) pieces.push({ kind, from: match.index, to: match.index + match[0].length });
  }
  return pieces;
}

function remember(family: string): Grammar {
  const found = (GRAMMARS[family] as () => Grammar)();
  made.set(family, found);
  return found;
}
