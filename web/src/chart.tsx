// Charts of the history.

import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clock, UNKNOWN } from './format';
import type { History } from './history';
import { useTheme } from './theme';

export interface Line {
  /** The column of the history. */
  column: string;
  title: string;
  /** A custom property with the colour. */
  colour: string;
  dashed?: boolean;
}

interface Props {
  title: string;
  history: History;
  lines: Line[];
  format: (value: number | undefined) => string;
  /** The upper end of the scale, such as 1 for ratios; by the values if missing. */
  top?: number;
  /** Whether the marks of the scale are multiples of powers of 2, as befits bytes. */
  binary?: boolean;
}

const HEIGHT = 200;
/** The shortest time that a chart shows, in seconds. */
const SHORTEST = 120;
/** Distances between marks of the time axis, in seconds. */
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900];
/** Distances between marks of a scale of bytes. */
const BINARY_STEPS = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** The colours that the style sheet gives to names, as the canvas needs them. */
function colours(names: string[]): string[] {
  const probe = document.createElement('span');
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

/** The time of day at each mark of the axis, with seconds if the marks are close. */
function times(_: uPlot, marks: number[]): string[] {
  const isClose = (marks[1] ?? 0) - (marks[0] ?? 0) < 60;
  return marks.map((mark) => clock(mark * 1000).slice(0, isClose ? 8 : 5));
}

/** The points without neighbours: no line shows them. */
function isolated(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const isMissing = (index: number) => values[index] === null || values[index] === undefined;
  return [...values.keys()].filter((index) => !isMissing(index) && isMissing(index - 1) && isMissing(index + 1));
}

function options(width: number, { lines, format, top, binary }: Props): uPlot.Options {
  const [text, grid, ...strokes] = colours(['--muted', '--line', ...lines.map((line) => line.colour)]);
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '12px system-ui, sans-serif' };
  const series = lines.map((line, index) => ({
    label: line.title,
    stroke: strokes[index],
    width: 2,
    dash: line.dashed ? [6, 4] : undefined,
    points: { show: true, size: 6, fill: strokes[index], filter: isolated },
  }));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { range: (_, first, last) => [Math.min(first, last - SHORTEST), last] },
      y: { range: (_, __, highest) => [0, top ?? (highest > 0 ? highest * 1.1 : binary ? 1024 : 1)] },
    },
    axes: [
      { ...axis, values: times, space: 70, incrs: TIME_STEPS },
      { ...axis, size: 64, values: (_, marks) => marks.map((mark) => format(mark)), space: 36, ...(binary ? { incrs: BINARY_STEPS } : {}) },
    ],
    series: [{}, ...series],
  };
}

function extremes(values: (number | null)[]): { last?: number; least?: number; most?: number } {
  let least: number | undefined;
  let most: number | undefined;
  for (const value of values) {
    if (value === null) continue;
    if (least === undefined || value < least) least = value;
    if (most === undefined || value > most) most = value;
  }
  return { last: values.at(-1) ?? undefined, least, most };
}

/** A chart with its values as a table below it, for those who cannot see the chart. */
export function Chart(props: Props) {
  const { title, history, lines, format, top } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [width, setWidth] = useState(0);
  const theme = useTheme();
  const id = lines.map((line) => `${line.column}${line.title}`).join();

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    if (place.current !== null) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (place.current === null || width === 0) return;
    plot.current = new uPlot(options(width, props), undefined, place.current);
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [width, theme, id, top]);

  const columns = lines.map((line) => history.column(line.column));
  useEffect(() => {
    plot.current?.setData([history.times, ...columns] as uPlot.AlignedData);
  });

  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
      <table class="legend">
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col" class="num">now</th>
            <th scope="col" class="num">lowest</th>
            <th scope="col" class="num">highest</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line, index) => {
            const { last, least, most } = extremes(columns[index] ?? []);
            return (
              <tr key={line.column}>
                <th scope="row">
                  <span class={line.dashed ? 'swatch dashed' : 'swatch'} style={{ borderColor: `var(${line.colour})` }} aria-hidden="true" />
                  {line.title}
                </th>
                {[last, least, most].map((value, place) => (
                  <td key={place} class="num">{value === undefined ? UNKNOWN : format(value)}</td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </figure>
  );
}
