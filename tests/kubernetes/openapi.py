#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Makes openapi-1.35.json, which tests hold the manifests against: what a real kube-apiserver says of the kinds that they are made
of, without the descriptions. From a kube-apiserver of that version: openapi.py <(kubectl get --raw /openapi/v2) >openapi-1.35.json.
(The swagger.json in the sources of Kubernetes is the same without the enums.)"""
import json
import sys

KINDS = [("", "v1", k) for k in ("Namespace", "ServiceAccount", "ConfigMap", "Secret", "Service")] + \
    [("apps", "v1", k) for k in ("DaemonSet", "StatefulSet", "Deployment")] + \
    [("rbac.authorization.k8s.io", "v1", k) for k in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")] + \
    [("scheduling.k8s.io", "v1", "PriorityClass"), ("networking.k8s.io", "v1", "NetworkPolicy"),
     ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
KEPT = {"$ref", "additionalProperties", "enum", "format", "items", "properties", "required", "type", "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type", "x-kubernetes-group-version-kind"}


def strip(schema):
    kept = {k: v for k, v in schema.items() if k in KEPT}
    for k in ("items", "additionalProperties"):
        if k in kept:
            kept[k] = strip(kept[k])
    if "properties" in kept:
        kept["properties"] = {k: strip(v) for k, v in kept["properties"].items()}
    return kept


def references(schema):
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"].rsplit("/", 1)[1]
    for child in [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]:
        if isinstance(child, dict):
            yield from references(child)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        all_of = json.load(f)["definitions"]
    of_kind = {(g["group"], g["version"], g["kind"]): name for name, d in all_of.items() for g in d.get("x-kubernetes-group-version-kind", ())}
    needed, todo = set(), [of_kind[k] for k in KINDS]
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += references(all_of[name])
    print("{\n" + ",\n".join(f"{json.dumps(n)}:{json.dumps(strip(all_of[n]), separators=(',', ':'), sort_keys=True)}" for n in sorted(needed)) + "\n}")


if __name__ == "__main__":
    main()
