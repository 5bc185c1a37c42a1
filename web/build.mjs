// Bundles src/main.ts and its styles into the package: app.js and app.css, or into a directory given.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const outdir = process.argv[2] ?? fileURLToPath(new URL("../src/counterpoint/view/assets", import.meta.url));

await build({
  entryPoints: { app: fileURLToPath(new URL("src/main.ts", import.meta.url)) },
  outdir,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome80", "firefox113", "safari16.4"],
  charset: "ascii",
  legalComments: "inline",
  logLevel: "warning",
});
