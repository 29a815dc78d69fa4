/** The frame that most screens share: a title, filters that live in the address, and the states of what is read. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useLocation } from "preact-iso";
import type { ApiError } from "../api/client";
import { CursorList, type Query } from "../live/list";
import { hints, Resource } from "../live/resource";
import { useKeys } from "./keys";
import { Failure, Loading } from "./states";

/** The title of the tab. */
export const title = signal("");

export function useTitle(text: string): void {
  useEffect(() => {
    title.value = text;
  }, [text]);
}

interface ScreenProps {
  title: string;
  note?: ComponentChildren;
  /** A link above the title: the list that a thing is of. */
  back?: { href: string; label: string };
  filters?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

export function Screen({ title: text, note, back, filters, actions, children }: ScreenProps) {
  useTitle(text);
  const { route } = useLocation();
  useKeys(back ? { Escape: () => route(back.href) } : {});
  return (
    <main id="main" tabIndex={-1} class="screen part">
      <header>
        <div class="names">
          {back && (
            <a class="up" href={back.href}>
              {back.label}
            </a>
          )}
          <h1>{text}</h1>
          {note && <p>{note}</p>}
        </div>
        {(filters || actions) && (
          <div class="do">
            {filters}
            {actions}
          </div>
        )}
      </header>
      {children}
    </main>
  );
}

/** The content of a page that is longer than the window. */
export function Scroll({ children }: { children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label="Content" tabIndex={0}>
      {children}
    </div>
  );
}

/** A labelled part of a page. */
export function Section({
  label,
  note,
  children,
}: {
  label: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = `h-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return (
    <section class="part-section" aria-labelledby={id}>
      <h2 class="label" id={id}>
        {label}
        {note !== undefined && <span>{note}</span>}
      </h2>
      {children}
    </section>
  );
}

/** Names and values. What is null or empty is left out. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  const given = of.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return (
    <dl class="facts">
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function useResource<T>(path: string, live = false): Resource<T> {
  const resource = useMemo(() => new Resource<T>(path), [path]);
  const hint = live ? hints.value : 0;
  useEffect(() => resource.refresh(), [resource, hint]);
  return resource;
}

export function useList<T>(path: string, query: Query = {}, keyOf?: (item: T) => string | number): CursorList<T> {
  const list = useMemo(() => new CursorList<T>(path, query, keyOf), [path, JSON.stringify(query)]);
  const hint = hints.value;
  useEffect(() => list.refresh(), [list, hint]);
  return list;
}

interface ShownProps<T> {
  of: { value: { value: T | null }; error: { value: ApiError | null }; refresh: () => void };
  label: string;
  rows?: number;
  children: (value: T) => ComponentChildren;
}

/** What was read, or the state of reading it. */
export function Shown<T>({ of, label, rows = 6, children }: ShownProps<T>) {
  const value = of.value.value;
  if (value !== null) return <>{children(value)}</>;
  if (of.error.value) return <Failure error={of.error.value} retry={of.refresh} />;
  return <Loading rows={rows} label={label} />;
}

interface FilterProps {
  search?: { name: string; label: string };
  choices?: { name: string; label: string; of: readonly (readonly [value: string, word: string])[] }[];
}

const TYPING_MS = 200;

/** A search field and choices, kept in the address. `/` goes to the field. */
export function Filters({ search, choices = [] }: FilterProps) {
  const { query, set } = useFilters();
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useKeys(search ? { "/": () => field.current?.focus() } : {});
  const type = (value: string): void => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => search && set({ [search.name]: value }), TYPING_MS);
  };
  return (
    <>
      {search && (
        <input
          ref={field}
          type="search"
          placeholder={search.label}
          aria-label={search.label}
          defaultValue={query[search.name] ?? ""}
          onInput={(event) => type(event.currentTarget.value)}
        />
      )}
      {choices.map((choice) => (
        <select
          key={choice.name}
          aria-label={choice.label}
          value={query[choice.name] ?? ""}
          onChange={(event) => set({ [choice.name]: event.currentTarget.value })}
        >
          {choice.of.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      ))}
    </>
  );
}

/** The query of the address, and a function that changes it. */
export function useFilters(): { query: Record<string, string>; set: (next: Record<string, string>) => void } {
  const { query, route, path } = useLocation();
  const set = (next: Record<string, string>): void => {
    const search = new URLSearchParams(
      Object.entries({ ...Object.fromEntries(new URLSearchParams(location.search)), ...next }).filter(
        ([, value]) => value,
      ),
    );
    route(`${path}${search.size ? `?${search}` : ""}`, true);
  };
  return { query: query as Record<string, string>, set };
}
