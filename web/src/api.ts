// The server's JSON API.

export interface Source {
  source: string;
  pool: string;
  up: boolean;
  age_seconds?: number;
  error?: string;
  overdue_seconds?: number;
}

export interface Histogram {
  /** The largest value of each bucket but the last. */
  bounds: number[];
  /** One more than bounds. */
  counts: number[];
}

export interface Resource {
  type: string;
  labels: Record<string, string>;
  values: Record<string, number>;
  histograms?: Record<string, Histogram>;
}

export interface Readings {
  sources: Source[];
  resources: Resource[];
}

export interface Alert {
  name: string;
  severity: string;
  summary: string;
  labels: Record<string, string>;
  value?: number;
  since_seconds?: number;
}

export interface Alerts {
  alerts: Alert[];
  left_out: number;
  rules: number;
}

/** The definition of a metric. */
export interface Family {
  name: string;
  type: string;
  unit: string;
  resource: string;
  labels: string[];
  help: string;
}

export interface Definitions {
  families: Family[];
  resources: { type: string; labels: string[]; help: string }[];
}

/** The server wants a token, or another one. */
export class TokenNeeded extends Error {}

/** The server does not have this path. */
export class NotFound extends Error {}

/** Longer than the server waits for its sources, unless `--timeout` is very long. */
const LIMIT_MS = 30_000;

/** Fetches an answer of the API. */
export async function fetchJson<T>(path: string, token: string | null): Promise<T> {
  const headers: Record<string, string> = token === null ? {} : { Authorization: `Bearer ${token}` };
  const response = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.timeout(LIMIT_MS) });
  if (response.status === 401) throw new TokenNeeded();
  if (response.status === 404) throw new NotFound();
  if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
  return (await response.json()) as T;
}
