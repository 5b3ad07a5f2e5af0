# lib/kube: see docs/ARCHITECTURE.md
