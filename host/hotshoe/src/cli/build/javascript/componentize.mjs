// Makes a component of a JavaScript plugin: node componentize.mjs FOLDER WORLDS OUT
//
// esbuild bundles the author's modules and npm packages into one module, QuickJS runs it once, and each call of the
// component begins where this run ended: it starts no engine and reads no source. A call of a function of WASI traps.

import { createHash } from "node:crypto";
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { builtinModules, createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { componentize } from "componentize-qjs";
import * as esbuild from "esbuild";

const ENTRY = "hotshoe:entry";
/** The optional interfaces, in the order in which the name of a world has them. */
const OPTIONAL = ["validation", "defaulting", "conversion"];
/** Where the bundle leaves the names of the interfaces that the plugin has functions for. */
const INTERFACES = `globalThis[Symbol.for("hotshoe.interfaces")]`;
/** How it says that they are not those of the world. */
const OTHER_WORLD = /hotshoe:interfaces=([a-z,]*)/;
/** How QuickJS names the bundle in stacks. */
const FRAME = /componentize-qjs:user\.js:(\d+):(\d+)/g;

const [folder, worlds, out] = process.argv.slice(2);
try {
  await build();
} catch (error) {
  // esbuild has printed its own errors.
  if (!Array.isArray(error.errors)) console.error(`error: ${error.message}`);
  process.exitCode = 1;
}

async function build() {
  const { main = "plugin.js" } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const sdk = sdkFolder();
  const { code, sources } = await bundled(main, sdk);
  const module = `${code}\nglobalThis[Symbol.for("hotshoe.sources")] = ${JSON.stringify(sources)};\n`;
  // The component contains random seeds of QuickJS, so no two builds are equal. Where the module has not changed, the
  // component is kept: a new one would be another revision for a host.
  const [made, digest] = [`${out}.made-of`, await digestOf(module)];
  if ((await textOf(made)) === digest && (await textOf(out)) !== undefined) return;
  const component = await componentized(module, sources);
  await replace(made, "");
  await replace(out, component);
  await replace(made, digest);
}

/** The digest of a module and of the tools that make a component of it. */
async function digestOf(module) {
  const hash = createHash("sha256").update(module);
  const here = dirname(fileURLToPath(import.meta.url));
  for (const file of ["package-lock.json", "componentize.mjs"]) hash.update(await readFile(join(here, file)));
  const contract = (await readdir(worlds, { recursive: true })).filter((file) => file.endsWith(".wit"));
  for (const file of contract.sort()) hash.update(await readFile(join(worlds, file)));
  return hash.digest("hex");
}

/** Replaces a file atomically: another build may read it. */
async function replace(file, content) {
  const whole = `${file}.${process.pid}`;
  await writeFile(whole, content);
  await rename(whole, file);
}

async function textOf(file) {
  return readFile(file, "utf8").catch(() => undefined);
}

function sdkFolder() {
  try {
    return dirname(createRequire(join(folder, "package.json")).resolve("@hotshoe/sdk/guest"));
  } catch {
    throw new Error(`${folder} does not depend on @hotshoe/sdk: run \`npm install @hotshoe/sdk\` in it`);
  }
}

async function bundled(main, sdk) {
  const entry = `import { exported } from "@hotshoe/sdk/guest";
    import * as author from ${JSON.stringify(`./${main}`)};
    const interfaces = exported(author.default);
    ${INTERFACES} = Object.keys(interfaces).join();
    export const { reconciler, ${OPTIONAL.join(", ")} } = interfaces;`;
  const { outputFiles } = await esbuild.build({
    stdin: { contents: entry, resolveDir: folder, sourcefile: ENTRY },
    absWorkingDir: folder,
    outfile: "bundle.js",
    write: false,
    bundle: true,
    format: "esm",
    platform: "neutral",
    target: "es2023",
    mainFields: ["module", "main"],
    conditions: ["module", "import", "default"],
    define: { "process.env.NODE_ENV": '"production"' },
    external: ["hotshoe:*"],
    sourcemap: "external",
    sourcesContent: false,
    legalComments: "none",
    // The SDK has a better message for it.
    logOverride: { "import-is-undefined": "silent" },
    charset: "utf8",
    plugins: [{ name: "no-node", setup: refuseNode }],
  });
  const [map, code] = ["map", "js"].map((end) => outputFiles.find(({ path }) => path.endsWith(end)).text);
  return { code, sources: sourcesOf(JSON.parse(map), sdk) };
}

/** Refuses the modules of Node.js by name, unless an npm package of that name is installed. */
function refuseNode(build) {
  const builtin = new RegExp(`^(node:.*|(${builtinModules.join("|")}))$`);
  build.onResolve({ filter: builtin }, async ({ path, pluginData, ...place }) => {
    if (pluginData === ENTRY) return undefined;
    const found = path.startsWith("node:") ? { errors: [path] } : await build.resolve(path, { ...place, pluginData: ENTRY });
    if (found.errors.length === 0) return found;
    return { errors: [{ text: `${path} is a part of Node.js, and a plugin has no files, network, processes or clock: use a package without it` }] };
  });
}

/** Where the bundle's lines come from: one place for each line, and one wherever the source line changes within it. */
function sourcesOf({ mappings, sources }, sdk) {
  const isAuthors = sources.map((source) => source !== ENTRY && relative(sdk, join(folder, source)).startsWith(".."));
  const places = [];
  let [source, line] = [0, 0];
  mappings.split(";").forEach((segments, index) => {
    let [column, last] = [0, undefined];
    for (const segment of segments.split(",").filter((segment) => segment !== "")) {
      const [columns, ofSource = 0, ofLine = 0] = numbers(segment);
      [column, source, line] = [column + columns, source + ofSource, line + ofLine];
      const here = `${source},${line + 1}`;
      if (isAuthors[source] && here !== last) places.push(`${index + 1},${column},${here}`);
      last = here;
    }
  });
  return { files: sources, places: places.join(";") };
}

/** The numbers of a segment of a source map: base 64, five bits a digit, the sign in the lowest bit. */
function numbers(segment) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const all = [];
  let [value, shift] = [0, 0];
  for (const character of segment) {
    const digit = digits.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    all.push(value & 1 ? -(value >>> 1) : value >>> 1);
    [value, shift] = [0, 0];
  }
  return all;
}

/**
 * Makes the component. Which interfaces the plugin has functions for is known only when its module has run, and the world is
 * chosen before: it is that of the last build, and if the module finds that it is another, that one.
 */
async function componentized(module, sources) {
  const remembered = `${out}.interfaces`;
  const last = ((await textOf(remembered)) ?? "").split(",");
  const first = await inWorld(OPTIONAL.filter((name) => last.includes(name)), module, sources);
  if (first.component !== undefined) return first.component;
  await replace(remembered, first.interfaces.join());
  const { component, interfaces } = await inWorld(first.interfaces, module, sources);
  if (component === undefined) throw new Error(`the module defines ${first.interfaces} when it is first loaded, and then ${interfaces}`);
  return component;
}

/** The component, or the optional interfaces that the plugin has instead of these. */
async function inWorld(optional, module, sources) {
  const expected = JSON.stringify(["reconciler", ...optional].join());
  const jsSource = `${module}if (${INTERFACES} !== ${expected}) throw new Error(\`hotshoe:interfaces=\${${INTERFACES}}\`);\n`;
  const options = { witPath: worlds, world: ["plugin", ...optional].join("-"), jsSource, stubWasi: true, sync: true, disableGc: true };
  try {
    return await componentize(options);
  } catch (error) {
    const other = OTHER_WORLD.exec(error.message);
    if (other !== null) return { interfaces: OPTIONAL.filter((name) => other[1].split(",").includes(name)) };
    throw new Error(`the module fails while it is loaded: ${placed(error.message, sources)}`);
  }
}

/** The message of QuickJS from the error on, with the author's files and lines, and without the frames of others. */
function placed(message, { files, places }) {
  const known = places.split(";").map((place) => place.split(",").map(Number));
  const reported = message.slice(message.lastIndexOf(" JavaScript module")).replace(/^.*?: /, "");
  const lines = reported.replace(FRAME, (frame, line, column) => {
    const before = known.filter(([l, c]) => l === Number(line) && c < Number(column)).at(-1);
    return before === undefined ? frame : `${files[before[2]]}:${before[3]}`;
  });
  return lines.split("\n").filter((line) => !/^ +at .*(componentize-qjs:|hotshoe:|\(native\))/.test(line)).join("\n").trim();
}
