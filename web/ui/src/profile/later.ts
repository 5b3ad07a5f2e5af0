// SPDX-License-Identifier: Apache-2.0
// What may come a little later than what one looks at: the table follows the flame graph, so that neither a zoom nor new data is one long
// piece of work between two frames.
import { useEffect, useState } from 'preact/hooks';

/** The value, once what else changed with it is on the screen and `ms` have passed. */
export function useLater<T>(value: T, ms: (was: T, is: T) => number): T {
	const [late, setLate] = useState(value);
	useEffect(() => {
		if (late === value) return;
		let timer = 0;
		const frame = requestAnimationFrame(() => { timer = window.setTimeout(() => setLate(value), ms(late, value)); });
		return () => { cancelAnimationFrame(frame); clearTimeout(timer); };
	}, [value]);
	return late;
}
