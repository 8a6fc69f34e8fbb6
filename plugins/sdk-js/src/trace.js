// Where an error came from, in the author's files. The component holds one file that was bundled from them, and a
// table, written by `hotshoe build`, of where its parts came from.

import { stringify } from "./json.js";

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
    return stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function framesOf(error) {
  if (typeof error.stack !== "string") return [];
  const frames = error.stack.split("\n").map((line) => FRAME.exec(line)).filter((frame) => frame !== null);
  // Where it was made is of interest, and not where its class is.
  const classes = classesOf(error);
  while (classes.includes(frames[0]?.[1])) frames.shift();
  const places = read(globalThis[SOURCES]);
  return frames.map(([, called = "", file, line, column]) => {
    const place = { line: Number(line), column: Number(column) };
    return { called, ...(places === undefined ? { file, line: place.line, isOwn: true } : source(places, place)) };
  }).filter(({ file }) => file !== undefined);
}

function classesOf(error) {
  const names = [];
  for (let at = error; at !== null && names.length < 9; at = Object.getPrototypeOf(at)) names.push(at.constructor?.name);
  return names.filter((name) => typeof name === "string" && name !== "");
}

/** The places of each line of the bundle. */
function read(table) {
  if (table === undefined) return undefined;
  const lines = new Map();
  for (const place of table.places.split(";")) {
    const [line, ...rest] = place.split(",").map(Number);
    if (!lines.has(line)) lines.set(line, []);
    lines.get(line).push(rest);
  }
  return { files: table.files, lines };
}

/** The last place of the line that begins before this column, or else its first. */
function source({ files, lines }, { line, column }) {
  const places = lines.get(line);
  if (places === undefined) return {};
  const [, file, sourceLine] = places.findLast(([begins]) => begins < column) ?? places[0];
  return { file: files[file], line: sourceLine, isOwn: !/^\.\.|(^|\/)node_modules\//.test(files[file]) };
}
