// SPDX-License-Identifier: Apache-2.0
// The page of runbooks, whose text is there before this runs (runbooks.mjs): its styles, and light or dark as on every page.
import '../base/base.css';
import '../base/frame.css';
import './runbooks.css';
import '../base/theme';
