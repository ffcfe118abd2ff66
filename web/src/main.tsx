// The page of `poolwright serve`.

import 'uplot/dist/uPlot.min.css';
import './style.css';
import { render } from 'preact';
import { App } from './app';
import { Monitor } from './monitor';
import { apply } from './theme';

apply();
const monitor = new Monitor();
const place = document.getElementById('page');
if (place !== null) render(<App monitor={monitor} />, place);
monitor.start();
