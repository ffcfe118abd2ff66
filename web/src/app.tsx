// The frame of the page: header, navigation, messages, and the chosen view.

import type { FunctionComponent } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { clock, duration } from './format';
import { isStale } from './items';
import type { Monitor } from './monitor';
import * as theme from './theme';
import { Choice, MonitorContext, useMonitor } from './ui';
import { AlertList } from './views/alerts';
import { Cache } from './views/cache';
import { Datasets } from './views/datasets';
import { Disks } from './views/disks';
import { hasHistograms, Histograms } from './views/histograms';
import { Metrics } from './views/metrics';
import { Overview } from './views/overview';
import { hasPlans, Plans } from './views/plan';
import { fault, Sources, sourceTitle } from './views/sources';

interface View {
  path: string;
  title: string;
  component: FunctionComponent;
  /** Whether there is something to show. */
  exists: (monitor: Monitor) => boolean;
}

const always = () => true;

const VIEWS: View[] = [
  { path: '', title: 'Overview', component: Overview, exists: always },
  { path: 'disks', title: 'Disks', component: Disks, exists: always },
  { path: 'datasets', title: 'Datasets', component: Datasets, exists: always },
  { path: 'cache', title: 'Cache', component: Cache, exists: always },
  { path: 'histograms', title: 'Latency and sizes', component: Histograms, exists: ({ items }) => hasHistograms(items) },
  { path: 'plan', title: 'Plan', component: Plans, exists: ({ items }) => hasPlans(items) },
  { path: 'alerts', title: 'Alerts', component: AlertList, exists: ({ alerts }) => alerts !== undefined },
  { path: 'sources', title: 'Sources', component: Sources, exists: always },
  { path: 'metrics', title: 'All metrics', component: Metrics, exists: ({ families }) => families.size > 0 },
];

function path(): string {
  return location.hash.replace(/^#\/?/, '');
}

export function App({ monitor }: { monitor: Monitor }) {
  const [, changed] = useReducer((number: number) => number + 1, 0);
  const [at, setAt] = useState(path());
  const main = useRef<HTMLElement>(null);
  useEffect(() => monitor.subscribe(() => changed(0)), [monitor]);
  useEffect(() => {
    const listener = () => {
      if (location.hash === '#main') return;
      setAt(path());
      window.scrollTo(0, 0);
    };
    addEventListener('hashchange', listener);
    return () => removeEventListener('hashchange', listener);
  }, []);
  const views = VIEWS.filter((view) => view.exists(monitor));
  const view = views.find((view) => view.path === at) ?? VIEWS[0];
  useEffect(() => {
    document.title = view === undefined || view.path === '' ? 'Poolwright' : `${view.title} – Poolwright`;
  }, [view]);
  const skip = (event: Event) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <MonitorContext.Provider value={monitor}>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Header />
      <nav class="views" aria-label="Views">
        {views.map(({ path, title }) => (
          <a key={path} href={`#/${path}`} aria-current={view?.path === path ? 'page' : undefined}>
            {title}{path === 'alerts' && monitor.alerts?.alerts.length ? ` (${monitor.alerts.alerts.length})` : ''}
          </a>
        ))}
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Messages />
        {monitor.tokenNeeded ? <TokenForm /> : monitor.updated !== undefined && view !== undefined ? <view.component /> : null}
        {!monitor.tokenNeeded && monitor.updated === undefined && monitor.failure === undefined && <p>Loading…</p>}
      </main>
    </MonitorContext.Provider>
  );
}

/** The present time, every second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

const INTERVALS: [string, string][] = [['2000', 'every 2 s'], ['5000', 'every 5 s'], ['15000', 'every 15 s'], ['60000', 'every 60 s']];

function Header() {
  const monitor = useMonitor();
  const [chosen, setChosen] = useState(theme.choice());
  return (
    <header class="top">
      <h1>Poolwright</h1>
      <Status />
      <div class="controls">
        <button type="button" aria-pressed={monitor.paused} onClick={() => monitor.setPaused(!monitor.paused)}>Pause</button>
        <Choice label="Updates" hidden value={String(monitor.interval)} options={INTERVALS} change={(value) => monitor.setInterval(Number(value))} />
        <Choice label="Colours" hidden value={chosen} options={[['system', 'auto colours'], ['light', 'light'], ['dark', 'dark']]}
          change={(value) => {
            theme.choose(value);
            setChosen(value);
          }} />
      </div>
    </header>
  );
}

/** Whether the values are fresh. */
function Status() {
  const monitor = useMonitor();
  const now = useNow();
  const age = monitor.updated === undefined ? undefined : (now - monitor.updated) / 1000;
  let mood = 'good';
  let text = age === undefined ? 'Loading' : 'Live';
  if (monitor.tokenNeeded) [mood, text] = ['warning', 'A token is needed'];
  else if (monitor.failure !== undefined) [mood, text] = ['bad', 'Not connected'];
  else if (monitor.paused) [mood, text] = ['warning', 'Paused'];
  return (
    <p class="status">
      <span class={`dot ${mood}`} aria-hidden="true" />
      <strong>{text}</strong>
      {age !== undefined && <span class="muted"> values from {clock(monitor.updated ?? 0)}{age >= 5 ? `, ${duration(age)} ago` : ''}</span>}
      {monitor.actualInterval > monitor.interval && <span class="muted">, every {duration(monitor.actualInterval / 1000)} because there are many</span>}
    </p>
  );
}

/** What is wrong, above every view. Screen readers announce which sources are stale, but not each change of their age. */
function Messages() {
  const { failure, sources, alerts } = useMonitor();
  const stale = sources.filter(isStale);
  const critical = alerts?.alerts.filter((alert) => alert.severity === 'critical') ?? [];
  return (
    <>
      <div role="alert">
        {failure !== undefined && (
          <p class="message bad">
            <strong>The server cannot be reached since {clock(failure.since)}.</strong> The page shows the last values and tries again. ({failure.message})
          </p>
        )}
      </div>
      <p class="unseen" role="status">{stale.length > 0 && `Stale sources: ${stale.map(sourceTitle).join(', ')}`}</p>
      <div>
        {stale.slice(0, 5).map((source) => (
          <p key={sourceTitle(source)} class="message bad">
            <strong>Stale: source {sourceTitle(source)}.</strong>{' '}
            {source.age_seconds === undefined ? 'It was never read.' : `Its values are ${duration(source.age_seconds)} old.`} Problem: {fault(source)}.
          </p>
        ))}
        {stale.length > 5 && <p class="message bad">{stale.length - 5} more sources are stale: <a href="#/sources">list</a>.</p>}
        {critical.length > 0 && path() !== 'alerts' && (
          <p class="message bad"><strong>{critical.length === 1 ? 'A critical alert fires' : `${critical.length} critical alerts fire`}:</strong> {critical[0]?.summary} <a href="#/alerts">All alerts</a></p>
        )}
      </div>
    </>
  );
}

function TokenForm() {
  const monitor = useMonitor();
  const input = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = input.current?.value.trim();
    if (token) monitor.setToken(token);
  };
  return (
    <form class="card token" onSubmit={submit}>
      <h2>Token</h2>
      <p>This server answers only clients that know its token: the first line of the file that <code>poolwright serve --token-file</code> names.
        The browser forgets it when this tab is closed.</p>
      {monitor.tokenRefused && <p id="refused" class="message bad" role="alert">The server refused the token.</p>}
      <div class="field">
        <label for="token">Token</label>
        <input id="token" ref={input} type="password" autocomplete="off" required aria-describedby={monitor.tokenRefused ? 'refused' : undefined} />
      </div>
      <button type="submit">Continue</button>
    </form>
  );
}
