// Types of the API and of the events of runs, from the documents of the reference. `npm run types` calls it.
import { readFileSync, writeFileSync } from "node:fs";
import openapi, { astToString } from "openapi-typescript";

const OPTIONS = { emptyObjectsUnknown: true, defaultNonNullable: false };
const read = (name) => readFileSync(new URL(`../docs/reference/${name}`, import.meta.url), "utf8");

async function write(name, document) {
  const types = astToString(await openapi(document, OPTIONS));
  writeFileSync(new URL(`src/api/${name}`, import.meta.url), types);
}

const { $defs, anyOf } = JSON.parse(read("events.schema.json").replaceAll("#/$defs/", "#/components/schemas/"));
// Custom events of others are of no use here, and would take in those of Holdfast.
const own = anyOf.filter(({ $ref }) => !$ref.endsWith("/Custom"));
await write("schema.d.ts", read("openapi.json"));
await write("events.schema.d.ts", {
  openapi: "3.1.0",
  info: { title: "events", version: "1" },
  paths: {},
  components: { schemas: { ...$defs, AnyEvent: { anyOf: own } } },
});
