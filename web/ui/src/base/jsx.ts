// SPDX-License-Identifier: Apache-2.0
// What JSX becomes in the bundle (build.mjs puts it into each file): shorter calls than those of the runtime that the compiler would choose.
// Long names: a variable of the same name would be called instead.
export { Fragment as jsxFragment, h as jsxElement } from 'preact';
