// Names as label values.

const LABEL_VALUE = 63;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes, and of the square roots of the
// first 8 (FIPS 180-4). Neither Node's `crypto` nor the browser's is there in a component.
const [ROUNDS, START] = constants();

/** The value of the label by which `reads: [{ parentLabel }]` finds what belongs to a parent of this name. */
export function parentLabel(name) {
  // Nearly every name is short and of ASCII, and QuickJS takes its time for the rest.
  if (name.length <= LABEL_VALUE && /^[\x20-\x7e]*$/.test(name)) return name;
  const bytes = utf8(name);
  if (bytes.length <= LABEL_VALUE) return name;
  const hash = sha256(bytes).slice(0, 10);
  return `${Array.from(name).slice(0, 52).join("").replace(/[-.]+$/, "")}-${hash}`;
}

function utf8(text) {
  return Array.from(unescape(encodeURIComponent(text)), (character) => character.charCodeAt(0));
}

function sha256(bytes) {
  const hash = START.slice();
  const words = padded(bytes);
  for (let block = 0; block < words.length; block += 16) digest(hash, words.slice(block, block + 16));
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

/** The message as words, with a 1 bit behind it and its length in bits in the last two. */
function padded(bytes) {
  const words = new Array((((bytes.length + 8) >> 6) + 1) * 16).fill(0);
  [...bytes, 0x80].forEach((byte, index) => (words[index >> 2] |= byte << (24 - 8 * (index % 4))));
  words[words.length - 1] = bytes.length * 8;
  return words;
}

function digest(hash, schedule) {
  for (let i = 16; i < 64; i += 1) {
    const [a, b] = [schedule[i - 15], schedule[i - 2]];
    const small0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
    const small1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
    schedule[i] = (schedule[i - 16] + small0 + schedule[i - 7] + small1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i += 1) {
    const big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const first = (h + big1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + schedule[i]) | 0;
    const big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    // One after the other: a list for each round is what QuickJS would spend its time on.
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => (hash[index] = (hash[index] + word) | 0));
}

function rotate(word, by) {
  return (word >>> by) | (word << (32 - by));
}

function constants() {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  return [primes.map((prime) => fraction(Math.cbrt(prime))), primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)))];
}
