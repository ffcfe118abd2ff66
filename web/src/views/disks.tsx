// The vdevs of each pool, and what moves through them.

import { Chart } from '../chart';
import { byteRate, bytes, count, latency, rate } from '../format';
import { flowOf, type Pool, pools, type Vdev, V } from '../model';
import { Badge, type Column, Meanings, Stale, State, Table, useMonitor, Values } from '../ui';

export function Disks() {
  const { items } = useMonitor();
  const list = pools(items).filter((pool) => pool.vdevs.length > 0);
  return (
    <>
      <h2>Disks and vdevs</h2>
      {list.length === 0 && <p>No pool is open.</p>}
      {list.map((pool) => <PoolDisks key={pool.item.key} pool={pool} />)}
      <Meanings
        terms={[
          ['Vdev', 'A disk, a file, or a group of them, such as a mirror. The first row of each table is the whole pool.'],
          ['Class', 'What the vdev is for: normal data, the intent log (log), a second-level cache (cache), metadata (special), or a spare.'],
          ['Reads/s, writes/s', 'Requests in a second, since the previous readings.'],
          ['Latency', 'The average time of the requests since the previous readings. It is unknown (–) if there were none.'],
        ]}
        metrics={[
          ['Read errors', V.readErrors], ['Write errors', V.writeErrors], ['Checksum errors', V.checksumErrors],
          ['Size', 'poolwright_vdev_size_bytes'], ['Allocated', 'poolwright_vdev_allocated_bytes'],
        ]}
      />
    </>
  );
}

function errorCell(vdev: Vdev, name: string) {
  const value = vdev.item.values[name];
  return value !== undefined && value > 0 ? <Badge mood="bad">{count(value)}</Badge> : count(value);
}

const INDENT = ['', 'indent-1', 'indent-2', 'indent-3'];

function columns(pool: Pool): Column<Vdev>[] {
  const hasTypes = pool.vdevs.some((vdev) => vdev.type !== '');
  const all: (Column<Vdev> | false)[] = [
    { id: 'name', title: 'Vdev', cell: (vdev) => <span class={INDENT[Math.min(vdev.depth, 3)]} title={vdev.name}>{vdev.title}</span> },
    { id: 'state', title: 'State', cell: (vdev) => <State state={vdev.state} /> },
    hasTypes && { id: 'type', title: 'Type', cell: (vdev) => vdev.type },
    { id: 'class', title: 'Class', cell: (vdev) => (vdev.class === 'root' ? 'pool' : vdev.class) },
    { id: 'reads', title: 'Reads/s', numeric: true, cell: (vdev) => rate(flowOf(vdev.item).reads) },
    { id: 'writes', title: 'Writes/s', numeric: true, cell: (vdev) => rate(flowOf(vdev.item).writes) },
    { id: 'read-bytes', title: 'Read', numeric: true, cell: (vdev) => byteRate(flowOf(vdev.item).readBytes) },
    { id: 'write-bytes', title: 'Written', numeric: true, cell: (vdev) => byteRate(flowOf(vdev.item).writeBytes) },
    { id: 'read-latency', title: 'Read latency', numeric: true, cell: (vdev) => latency(flowOf(vdev.item).readLatency) },
    { id: 'write-latency', title: 'Write latency', numeric: true, cell: (vdev) => latency(flowOf(vdev.item).writeLatency) },
    { id: 'read-errors', title: 'Read errors', numeric: true, cell: (vdev) => errorCell(vdev, V.readErrors) },
    { id: 'write-errors', title: 'Write errors', numeric: true, cell: (vdev) => errorCell(vdev, V.writeErrors) },
    { id: 'checksum-errors', title: 'Checksum errors', numeric: true, cell: (vdev) => errorCell(vdev, V.checksumErrors) },
    { id: 'size', title: 'Size', numeric: true, cell: (vdev) => bytes(vdev.item.values.poolwright_vdev_size_bytes) },
    { id: 'allocated', title: 'Allocated', numeric: true, cell: (vdev) => bytes(vdev.item.values.poolwright_vdev_allocated_bytes) },
  ];
  return all.filter((column) => column !== false);
}

function PoolDisks({ pool }: { pool: Pool }) {
  const { history } = useMonitor();
  const column = (name: string) => `${pool.item.key}/${name}`;
  return (
    <section aria-label={`Disks of pool ${pool.name}`}>
      <h3 class="with-badges">Pool {pool.name} <State state={pool.state} /> <Stale item={pool.item} /></h3>
      <div class="charts">
        <Chart title="Bytes in a second" history={history} format={byteRate} binary lines={[
          { column: column('readBytes'), title: 'Read', colour: '--line-1' },
          { column: column('writeBytes'), title: 'Written', colour: '--line-2', dashed: true },
        ]} />
        <Chart title="Average latency" history={history} format={latency} lines={[
          { column: column('readLatency'), title: 'Reads', colour: '--line-1' },
          { column: column('writeLatency'), title: 'Writes', colour: '--line-2', dashed: true },
        ]} />
      </div>
      <Table label={`Vdevs of pool ${pool.name}`} rows={pool.vdevs} columns={columns(pool)} keyOf={(vdev) => vdev.item.key}
        details={(vdev) => (
          <>
            <p>{vdev.name}</p>
            <Values item={vdev.item} />
          </>
        )} />
    </section>
  );
}
