// SPDX-License-Identifier: Apache-2.0
// Entry: reads the address, mounts the page.
import 'uplot/dist/uPlot.min.css';
import './app.css';
import { render } from 'preact';
import { App } from './app';
import { readUrl } from './state';

readUrl();
render(<App />, document.getElementById('app')!);
