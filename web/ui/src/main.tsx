// SPDX-License-Identifier: Apache-2.0
// Entry: reads the address, mounts the page.
import './base/base.css';
import './base/frame.css';
import './query/query.css';
import './explore/explore.css';
import './graph/graph.css';
import './profile/profile.css';
import './profile/functable.css';
import './compare/compare.css';
import './profile/view.css';
import './base/messages.css';
import './share/share.css';
import './pages/pages.css';
import './base/narrow.css';
import { render } from 'preact';
import { App } from './app';
import { readUrl } from './base/state';

readUrl();
render(<App />, document.getElementById('app')!);
