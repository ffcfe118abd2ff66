// The sources that the server reads.

import type { Source } from '../api';
import { duration, UNKNOWN } from '../format';
import { Badge, type Column, Meanings, Table, useMonitor } from '../ui';

/** What is wrong with a source; undefined if nothing is. */
export function fault(source: Source): string | undefined {
  if (source.up) return undefined;
  if (source.overdue_seconds !== undefined) return `it has not answered for ${duration(source.overdue_seconds)}`;
  return source.error ?? 'the last read failed';
}

/** The name of a source for people. */
export function sourceTitle(source: Source): string {
  return source.pool === '' ? source.source : `${source.source} of pool ${source.pool}`;
}

const COLUMNS: Column<Source>[] = [
  { id: 'source', title: 'Source', cell: ({ source }) => source, sort: ({ source }) => source },
  { id: 'pool', title: 'Pool', cell: ({ pool }) => pool || 'all', sort: ({ pool }) => pool },
  { id: 'state', title: 'State', cell: (source) => (source.up ? <Badge mood="good">answers</Badge> : <Badge mood="bad">{source.overdue_seconds === undefined ? 'failed' : 'hangs'}</Badge>), sort: ({ up }) => Number(up) },
  { id: 'age', title: 'Age of its values', numeric: true, cell: ({ age_seconds }) => (age_seconds === undefined ? 'never read' : age_seconds < 1 ? 'less than 1 s' : duration(age_seconds)), sort: ({ age_seconds }) => age_seconds },
  { id: 'error', title: 'Problem', cell: (source) => fault(source) ?? UNKNOWN },
];

export function Sources() {
  const { sources } = useMonitor();
  return (
    <>
      <h2>Sources</h2>
      <p>The server reads each source on its own. If one fails or hangs, the page keeps showing its last values, with their age.</p>
      {sources.length === 0
        ? <p>The server found nothing to read: no pool exists.</p>
        : <Table label="Sources" rows={sources} columns={COLUMNS} keyOf={(source) => `${source.source}/${source.pool}`} />}
      <Meanings terms={[
        ['user-pool', 'A pool of the user-space engine, asked through the socket of the process that has it open.'],
        ['kernel-…', 'Counters of the OpenZFS module in the kernel, or the output of zpool and zfs.'],
      ]} />
    </>
  );
}
