# rules: see docs/ARCHITECTURE.md
