/**
 * Markdown as elements of a short list. HTML in it is shown as text, pictures are links, and nothing is made from text
 * but text: a message can neither run nor load anything.
 */
import { lexer, type MarkedToken, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { memo } from "preact/compat";
import { useRef } from "preact/hooks";
import { safeAddress } from "./address";
import { splitBlocks } from "./blocks";
import { Code } from "./code";
import "./markdown.css";

/** Only the last block of a growing text is read again. */
export function Markdown({ text }: { text: string }) {
  const done = useRef({ text: "", blocks: [] as string[] });
  done.current = splitBlocks(text, done.current);
  return (
    <>
      {done.current.blocks.map((source, index) => (
        <Block key={index} source={source} />
      ))}
    </>
  );
}

const Block = memo(({ source }: { source: string }) => <>{elements(lexer(source, { gfm: true }))}</>);

function elements(tokens: readonly Token[] | undefined): ComponentChildren {
  return tokens?.map((token, index) => <Element key={`${index}${token.type}`} token={token as MarkedToken} />);
}

function Element({ token }: { token: MarkedToken }): JSX.Element | null {
  switch (token.type) {
    case "paragraph":
      return <p>{elements(token.tokens)}</p>;
    case "heading":
      return <p class={`heading h${token.depth}`}>{elements(token.tokens)}</p>;
    case "text":
      return <>{"tokens" in token && token.tokens ? elements(token.tokens) : decoded(token.text)}</>;
    case "escape":
      return <>{token.text}</>;
    case "strong":
      return <strong>{elements(token.tokens)}</strong>;
    case "em":
      return <em>{elements(token.tokens)}</em>;
    case "del":
      return <del>{elements(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "code":
      return (
        <pre tabIndex={0}>
          <Code text={token.text} language={token.lang?.split(/\s/)[0] ?? ""} />
        </pre>
      );
    case "blockquote":
      return <blockquote>{elements(token.tokens)}</blockquote>;
    case "list":
      return <List token={token} />;
    case "table":
      return <Table token={token} />;
    case "link":
    case "image":
      return <Link token={token} />;
    case "br":
      return <br />;
    case "hr":
      return <hr />;
    case "html":
      return <>{token.text}</>;
    case "space":
    case "def":
      return null;
    default:
      return <>{token.raw}</>;
  }
}

function List({ token }: { token: Tokens.List }) {
  const items = token.items.map((item, index) => (
    <li key={index}>
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled aria-label="done" />}
      {elements(item.tokens)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, index) => (
              <th key={index}>{elements(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, index) => (
                <td key={index}>{elements(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A link to the web or to a mail address; a picture is a link, so that reading calls nobody. */
function Link({ token }: { token: Tokens.Link | Tokens.Image }) {
  const children = token.type === "image" ? token.text || token.href : elements(token.tokens);
  const href = safeAddress(token.href);
  if (href === null) return <>{token.raw}</>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

/** The entities that Markdown knows in texts. */
function decoded(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}
