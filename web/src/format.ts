// Numbers as text, with the units of `zfs` and `zpool`.

const SUFFIXES = ['', 'K', 'M', 'G', 'T', 'P', 'E'];

/** What is shown for a value that is not known. */
export const UNKNOWN = '–';

/** At most five characters with a binary suffix, as `zfs list` prints them: 512, 1.50K, 12.3M, 145G. */
export function binary(value: number): string {
  let scaled = value;
  let power = 0;
  while (Math.abs(scaled) >= 1024 && power < SUFFIXES.length - 1) {
    scaled /= 1024;
    power += 1;
  }
  const suffix = SUFFIXES[power] ?? '';
  if (Number.isInteger(scaled)) return `${scaled}${suffix}`;
  for (const digits of [2, 1]) {
    const text = `${scaled.toFixed(digits)}${suffix}`;
    if (text.length <= 5) return text;
  }
  return `${scaled.toFixed(0)}${suffix}`;
}

/** Bytes: 0B, 512B, 1.50K. */
export function bytes(value: number | undefined): string {
  if (value === undefined) return UNKNOWN;
  return Math.abs(value) < 1024 ? `${Math.round(value)}B` : binary(value);
}

/** Bytes in a second. */
export function byteRate(value: number | undefined): string {
  return value === undefined ? UNKNOWN : `${bytes(value)}/s`;
}

/** Events in a second: 0, 0.25, 3.1, 250, 12,345. */
export function rate(value: number | undefined): string {
  if (value === undefined) return UNKNOWN;
  if (value === 0) return '0';
  if (value < 0.01) return '<0.01';
  if (value < 1) return value.toFixed(2);
  return value < 10 ? value.toFixed(1) : count(value);
}

/** A number of things. */
export function count(value: number | undefined): string {
  return value === undefined ? UNKNOWN : Math.round(value).toLocaleString('en');
}

/** A share of a whole: 0 %, 0.4 %, 37 %. */
export function percent(value: number | undefined): string {
  if (value === undefined) return UNKNOWN;
  const hundredths = value * 100;
  const digits = hundredths !== 0 && Math.abs(hundredths) < 10 ? 1 : 0;
  return `${hundredths.toFixed(digits)} %`;
}

/** A factor, as `zfs get compressratio` prints it. */
export function factor(value: number | undefined): string {
  return value === undefined ? UNKNOWN : `${value.toFixed(2)}x`;
}

/** A short time, such as a latency: 350 ns, 12.5 µs, 1.2 ms, 3.0 s. */
export function latency(seconds: number | undefined): string {
  if (seconds === undefined) return UNKNOWN;
  const units: [number, string][] = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
  for (const [size, unit] of units) {
    const scaled = seconds / size;
    if (scaled >= 1) return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${unit}`;
  }
  return '0 s';
}

/** A long time, in its two largest units: 12 s, 5 min 3 s, 4 h 10 min, 12 d 3 h. */
export function duration(seconds: number | undefined): string {
  if (seconds === undefined) return UNKNOWN;
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  if (first < 0) return '0 s';
  return parts.slice(first, first + 2).filter(([number]) => number > 0).map(([number, unit]) => `${number} ${unit}`).join(' ');
}

/** A point in time, in the browser's time zone: 2026-03-01 14:05. */
export function date(seconds: number | undefined): string {
  if (seconds === undefined) return UNKNOWN;
  const at = new Date(seconds * 1000);
  const two = (number: number) => String(number).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** A time of day: 14:05:09. */
export function clock(milliseconds: number): string {
  return new Date(milliseconds).toTimeString().slice(0, 8);
}

/** A metric's value, formatted by the unit in the metric's name. `help` tells conditions from numbers. */
export function metric(name: string, value: number | undefined, help = ''): string {
  if (value === undefined) return UNKNOWN;
  const stem = name.replace(/_total$/, '');
  if (stem.endsWith('_time_seconds') && !name.endsWith('_total')) return date(value);
  if (stem.endsWith('_seconds')) return value >= 60 ? duration(value) : latency(value);
  if (stem.endsWith('_bytes')) return bytes(value);
  if (/_(compression|dedup)_ratio$/.test(stem)) return factor(value);
  if (stem.endsWith('_ratio')) return percent(value);
  if (help.startsWith('Whether')) return value === 0 ? 'no' : 'yes';
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

/** The change of a counter in a second. */
export function metricRate(name: string, value: number | undefined): string {
  if (value === undefined) return '';
  if (name.endsWith('_bytes_total')) return byteRate(value);
  if (name.endsWith('_seconds_total')) return `${latency(value)}/s`;
  return `${rate(value)}/s`;
}

/** The words of a metric's name, without the resource and the unit: `poolwright_pool_free_bytes` becomes `free`. */
export function metricTitle(name: string, type: string): string {
  let words = name.replace(/^poolwright_/, '').replace(/_total$/, '').replace(/_(bytes|seconds|ratio)$/, '');
  const prefix = `${type.split(' ')[0]?.toLowerCase()}_`;
  if (words.startsWith(prefix)) words = words.slice(prefix.length);
  return words.replaceAll('_', ' ');
}
