# Rules and alerts: see docs/ARCHITECTURE.md. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += rules/rules.h
