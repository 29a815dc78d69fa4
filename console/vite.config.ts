import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Write a gzip and a brotli file beside each file that is worth it: the server sends them as they are. */
function compressed(): Plugin {
  return {
    name: "compressed",
    enforce: "post",
    writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle)) {
        const path = join(dir, name);
        const source = readFileSync(path);
        if (source.length < 1024 || !/\.(js|css|html|svg)$/.test(name)) continue;
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: source.length };
        writeFileSync(`${path}.gz`, gzipSync(source, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(source, { params }));
      }
    },
  };
}

export default defineConfig({
  base: "/console/",
  plugins: [compressed()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  resolve: {
    alias: {
      "react-dom": "preact/compat",
      "react/jsx-runtime": "preact/jsx-runtime",
      react: "preact/compat",
    },
  },
  build: {
    outDir: "../src/holdfast/console/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: { onLog: (level, log, pass) => log.code !== "MODULE_LEVEL_DIRECTIVE" && pass(level, log) },
  },
  server: { proxy: { "/api": "http://127.0.0.1:5050", "/ws": { target: "ws://127.0.0.1:5050", ws: true } } },
});
