// Where an error came from, in the author's files. The component holds one file that was bundled from them, and a
// table, written by `hotshoe build`, of where its parts came from.

/** Where the table is: `{ files: ["plugin.js", …], places: "line,column,file,line;…" }`, in the bundle's order. */
const SOURCES = Symbol.for("hotshoe.sources");

const FRAME = /^\s*at (?:(.*?) )?\(?([^()\s]+):(\d+):(\d+)\)?$/;

/** So many causes are named. */
const CAUSES = 3;

/** The type, the message and the place of an error in one line, with those of its causes. */
export function explained(error, causes = CAUSES) {
  if (!(error instanceof Error)) return `a value that is no Error was thrown: ${text(error)}`;
  const frames = framesOf(error);
  const own = frames.find(({ isOwn }) => isOwn) ?? frames[0];
  const place = own === undefined ? "" : ` (${own.file}:${own.line})`;
  const cause = error.cause === undefined || causes === 0 ? "" : `, caused by ${explained(error.cause, causes - 1)}`;
  return `${headline(error)}${place}${cause}`;
}

/** An error as consoles show it: with its stack. */
export function traced(error) {
  if (!(error instanceof Error)) return text(error);
  const lines = framesOf(error).map(({ called, file, line }) => `\n    at ${called === "" ? "" : `${called} `}(${file}:${line})`);
  return headline(error) + lines.join("");
}

/** The type of an author's own class too, which seldom sets `name`. */
function headline({ name, message, constructor }) {
  const type = name === "Error" ? (constructor?.name ?? name) : name;
  return message === "" ? type : `${type}: ${message}`;
}

function text(value) {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function framesOf({ stack }) {
  if (typeof stack !== "string") return [];
  const frames = stack.split("\n").map((line) => FRAME.exec(line)).filter((frame) => frame !== null);
  const places = read(globalThis[SOURCES]);
  return frames.map(([, called = "", file, line, column]) => {
    const place = { line: Number(line), column: Number(column) };
    return { called, ...(places === undefined ? { file, line: place.line, isOwn: true } : source(places, place)) };
  }).filter(({ file }) => file !== undefined);
}

function read(table) {
  if (table === undefined) return undefined;
  const places = table.places.split(";").map((place) => place.split(",").map(Number));
  return { files: table.files, places };
}

/** The last place that begins at this one or before it, on the same line. */
function source({ files, places }, { line, column }) {
  const before = places.filter(([l, c]) => l === line && c < column);
  const [, , file, sourceLine] = before.at(-1) ?? places.find(([l]) => l === line) ?? [];
  if (file === undefined) return {};
  return { file: files[file], line: sourceLine, isOwn: !/^\.\.|(^|\/)node_modules\//.test(files[file]) };
}
