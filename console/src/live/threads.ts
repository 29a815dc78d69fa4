/** The threads of the navigation and of the list without a filter, latest run first. */
import type { ListedThread } from "../api/types";
import { CursorList } from "./list";

export class ThreadList extends CursorList<ListedThread> {
  constructor(query: { title?: string; status?: string } = {}) {
    super("/api/threads", query);
  }
}

export const recent = new ThreadList();
