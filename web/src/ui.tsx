// Parts that several views use.

import type { ComponentChildren } from 'preact';
import { createContext, Fragment } from 'preact';
import { useContext, useId, useState } from 'preact/hooks';
import type { Family } from './api';
import { duration, metric, metricRate, metricTitle, percent } from './format';
import { type Item, sourcesOf } from './items';
import type { Monitor } from './monitor';

export const MonitorContext = createContext<Monitor | undefined>(undefined);

/** The monitor of the page. */
export function useMonitor(): Monitor {
  const monitor = useContext(MonitorContext);
  if (monitor === undefined) throw new Error('no monitor');
  return monitor;
}

type Mood = 'good' | 'warning' | 'bad' | 'neutral';

export function Badge({ mood, children }: { mood: Mood; children: ComponentChildren }) {
  return <span class={`badge ${mood}`}>{children}</span>;
}

const MOODS: Record<string, Mood> = {
  ONLINE: 'good', AVAIL: 'good', INUSE: 'warning', DEGRADED: 'warning', OFFLINE: 'warning', closed: 'neutral', '': 'neutral',
};

/** The state of a pool or vdev. */
export function State({ state }: { state: string }) {
  return state === '' ? null : <Badge mood={MOODS[state] ?? 'bad'}>{state}</Badge>;
}

/** Says that values are old, and how old. Nothing for fresh values. */
export function Stale({ item }: { item: Item }) {
  const monitor = useMonitor();
  if (!item.stale) return null;
  const ages = sourcesOf(item, monitor.sources).filter((source) => !source.up).map((source) => source.age_seconds);
  const known = ages.filter((age) => age !== undefined);
  return <Badge mood="bad">{known.length === 0 ? 'stale' : `stale: ${duration(Math.max(...known))} old`}</Badge>;
}

/** A share as a bar. The text beside it has the value. */
export function Bar({ share, label }: { share: number; label: string }) {
  const mood = share >= 0.9 ? 'bad' : share >= 0.8 ? 'warning' : 'good';
  const width = `${Math.min(100, Math.max(0, share * 100))}%`;
  return (
    <div class="bar" role="img" aria-label={`${label}: ${percent(share)}`}>
      <div class={mood} style={{ width }} />
    </div>
  );
}

/** A container that scrolls sideways, also by keyboard. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" role="region" aria-label={label} tabIndex={0}>{children}</div>;
}

export interface Column<T> {
  id: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  /** By what rows are sorted; a column without it cannot be sorted. Unknown values come last. */
  sort?: (row: T) => number | string | undefined;
  numeric?: boolean;
  /** Shown when the pointer is on the heading. The list of explanations has the same text. */
  help?: string;
}

interface TableProps<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  keyOf: (row: T) => string;
  /** Sorts by this column first, ascending for texts. */
  initial?: string;
  /** What a row shows when it is opened. */
  details?: (row: T) => ComponentChildren;
  pageSize?: number;
}

/** Compares texts so that `disk10` follows `disk9`. */
const COLLATOR = new Intl.Collator('en', { numeric: true });

function compare(a: number | string | undefined, b: number | string | undefined, direction: 1 | -1): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1;
  if (typeof a === 'number' && typeof b === 'number') return (a - b) * direction;
  return COLLATOR.compare(String(a), String(b)) * direction;
}

/** A table that is sorted by its headings and divided into pages. */
export function Table<T>({ label, rows, columns, keyOf, initial, details, pageSize = 50 }: TableProps<T>) {
  const [order, setOrder] = useState<{ id: string; direction: 1 | -1 } | undefined>(
    initial === undefined ? undefined : { id: initial, direction: 1 },
  );
  const [page, setPage] = useState(0);
  const [open, setOpen] = useState<string>();
  const by = columns.find((column) => column.id === order?.id)?.sort;
  let sorted = rows;
  if (order !== undefined && by !== undefined) {
    const keyed = rows.map((row) => ({ row, key: by(row) }));
    sorted = keyed.sort((a, b) => compare(a.key, b.key, order.direction)).map(({ row }) => row);
  }
  const pages = Math.max(1, Math.ceil(rows.length / pageSize));
  const at = Math.min(page, pages - 1);
  const shown = sorted.slice(at * pageSize, (at + 1) * pageSize);
  const sortBy = (column: Column<T>) => {
    const isSame = order?.id === column.id;
    setOrder({ id: column.id, direction: isSame ? (order.direction === 1 ? -1 : 1) : column.numeric ? -1 : 1 });
    setPage(0);
  };
  const width = columns.length + (details === undefined ? 0 : 1);
  return (
    <>
      <Scroll label={label}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.id} scope="col" class={column.numeric ? 'num' : ''} title={column.help}
                  aria-sort={order?.id === column.id ? (order.direction === 1 ? 'ascending' : 'descending') : undefined}>
                  {column.sort === undefined ? column.title : (
                    <button type="button" class="sort" onClick={() => sortBy(column)}>
                      {column.title}
                      <span aria-hidden="true">{order?.id === column.id ? (order.direction === 1 ? ' ▲' : ' ▼') : ''}</span>
                    </button>
                  )}
                </th>
              ))}
              {details && <th scope="col">More</th>}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => {
              const key = keyOf(row);
              return (
                <Fragment key={key}>
                  <tr>
                    {columns.map((column, index) => index === 0
                      ? <th key={column.id} scope="row">{column.cell(row)}</th>
                      : <td key={column.id} class={column.numeric ? 'num' : ''}>{column.cell(row)}</td>)}
                    {details && (
                      <td>
                        <button type="button" aria-expanded={open === key} aria-label={`Details of ${key.split('\u0000').at(-1)}`}
                          onClick={() => setOpen(open === key ? undefined : key)}>
                          Details
                        </button>
                      </td>
                    )}
                  </tr>
                  {details && open === key && <tr class="details"><td colSpan={width}>{details(row)}</td></tr>}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      {pages > 1 && <Pages label={label} page={at} pages={pages} rows={rows.length} size={pageSize} choose={setPage} />}
    </>
  );
}

interface PagesProps { label: string; page: number; pages: number; rows: number; size: number; choose: (page: number) => void }

function Pages({ label, page, pages, rows, size, choose }: PagesProps) {
  const first = page * size + 1;
  return (
    <nav class="pages" aria-label={`Pages of ${label}`}>
      <button type="button" disabled={page === 0} onClick={() => choose(0)}>First</button>
      <button type="button" disabled={page === 0} onClick={() => choose(page - 1)}>Previous</button>
      <span>{first.toLocaleString('en')} to {Math.min(rows, first + size - 1).toLocaleString('en')} of {rows.toLocaleString('en')}</span>
      <button type="button" disabled={page === pages - 1} onClick={() => choose(page + 1)}>Next</button>
      <button type="button" disabled={page === pages - 1} onClick={() => choose(pages - 1)}>Last</button>
    </nav>
  );
}

/** Text that limits a list. */
export function Filter({ label, value, change }: { label: string; value: string; change: (text: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} type="search" value={value} autocomplete="off" spellcheck={false}
        onInput={(event) => change(event.currentTarget.value)} />
    </div>
  );
}

/** A choice among a few values. A hidden label is read to those who cannot see the page. */
export function Choice<T extends string>({ label, hidden, value, options, change }: {
  label: string; hidden?: boolean; value: T; options: [T, string][]; change: (value: T) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class={hidden ? 'unseen' : ''}>{label}</label>
      <select id={id} value={value} onChange={(event) => change(event.currentTarget.value as T)}>
        {options.map(([option, title]) => <option key={option} value={option}>{title}</option>)}
      </select>
    </div>
  );
}

/** What the figures of a view mean: own terms, and metrics with the help of the server's table. */
export function Meanings({ terms = [], metrics = [] }: { terms?: [string, string][]; metrics?: [string, string][] }) {
  const { families } = useMonitor();
  const known = metrics.flatMap(([title, name]) => {
    const help = families.get(name)?.help;
    return help === undefined ? [] : [[title, help] as [string, string]];
  });
  if (terms.length + known.length === 0) return null;
  return (
    <details class="meanings">
      <summary>What these figures mean</summary>
      <dl>
        {[...terms, ...known].map(([title, help]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{help}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** A few figures with their names. Figures that are not known are left out. */
export function Figures({ figures }: { figures: [string, ComponentChildren | undefined, string?][] }) {
  return (
    <dl class="figures">
      {figures.filter(([, value]) => value !== undefined).map(([title, value, help]) => (
        <div key={title} title={help}>
          <dt>{title}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** All values of a resource, with their meanings. */
export function Values({ item }: { item: Item }) {
  const { families } = useMonitor();
  const names = Object.keys(item.values);
  const help = (name: string) => (families.get(name) as Family | undefined)?.help ?? '';
  return (
    <dl class="values">
      {names.map((name) => (
        <div key={name}>
          <dt>{metricTitle(name, item.type)}</dt>
          <dd>
            <strong>{metric(name, item.values[name], help(name))}</strong>
            {item.rates[name] !== undefined && <span class="rate"> ({metricRate(name, item.rates[name])})</span>}
            {help(name) !== '' && <span class="help">{help(name)}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
