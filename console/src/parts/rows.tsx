/** A list of things in columns, of which only the rows in sight exist. The first column leads to the thing. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Virtualizer } from "virtua";
import type { CursorList } from "../live/list";
import { useKeys } from "./keys";
import { Failure, Loading } from "./states";

export interface Column<T> {
  label: string;
  /** A track of a CSS grid. */
  width: string;
  show: (item: T) => ComponentChildren;
  /** Figures stand at the right; what is `quiet` is less than the title; `desk` is not shown on a phone. */
  as?: "figure" | "quiet" | "desk";
}

interface RowsProps<T> {
  label: string;
  items: readonly T[];
  columns: readonly Column<T>[];
  keyOf: (item: T) => string | number;
  href?: (item: T) => string | null;
  /** Something before the title: the shape of a status. */
  mark?: (item: T) => ComponentChildren;
  /** Things to do with a row, at its end. */
  actions?: (item: T) => ComponentChildren;
  onEnd?: () => void;
}

const NEAR_END_PX = 600;
/** The same in each row, so that their columns stand below each other. */
const ACTS_WIDTH = "minmax(8.5rem, max-content)";

export function Rows<T>(props: RowsProps<T>) {
  const { label, items, columns, keyOf, onEnd } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const focus = (step: number): void => {
    const links = [...(scroller.current?.querySelectorAll<HTMLElement>(".row a.go, .row[tabindex]") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
  };
  useKeys({ j: () => focus(1), k: () => focus(-1) });
  const onScroll = (): void => {
    const box = scroller.current;
    if (box && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX) onEnd?.();
  };
  const tracks = [...columns.map((column) => column.width), ...(props.actions ? [ACTS_WIDTH] : [])].join(" ");
  return (
    <div class="rows-box" style={{ "--cols": tracks }}>
      <div class="row head" aria-hidden="true">
        {columns.map((column) => (
          <span key={column.label} class={column.as}>
            {column.label}
          </span>
        ))}
      </div>
      <div class="rows" ref={scroller} onScroll={onScroll} role="region" aria-label={label} tabIndex={0}>
        <Virtualizer scrollRef={scroller} as="ul" item="li">
          {items.map((item) => (
            <Row key={keyOf(item)} item={item} {...props} />
          ))}
        </Virtualizer>
      </div>
    </div>
  );
}

function Row<T>({ item, columns, href, mark, actions }: RowsProps<T> & { item: T }) {
  const to = href?.(item) ?? null;
  return (
    <div class="row">
      {columns.map((column, index) => (
        <span key={column.label} class={index === 0 ? "title" : (column.as ?? "cell")}>
          {index === 0 && mark?.(item)}
          {index === 0 && to !== null ? (
            <a class="go" href={to}>
              {column.show(item)}
            </a>
          ) : index === 0 ? (
            <b>{column.show(item)}</b>
          ) : (
            column.show(item)
          )}
        </span>
      ))}
      {actions && <span class="acts">{actions(item)}</span>}
    </div>
  );
}

interface ListedProps<T> extends Omit<RowsProps<T>, "items" | "onEnd"> {
  list: CursorList<T>;
  empty: ComponentChildren;
}

/** The rows of a list that is read in pages, or the state of reading it. */
export function Listed<T>({ list, empty, ...rest }: ListedProps<T>) {
  const items = list.items.value;
  if (list.error.value && !items) return <Failure error={list.error.value} retry={list.refresh} />;
  if (!items) return <Loading rows={8} label={`Loading ${rest.label.toLowerCase()}`} />;
  if (items.length === 0) return <>{empty}</>;
  return <Rows {...rest} items={items} onEnd={() => void list.readMore()} />;
}
