// SPDX-License-Identifier: Apache-2.0

// Templates made up from a grammar.
package main

func random(n int, seed int64, one func(value, text string)) {}
