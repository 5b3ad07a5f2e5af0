# SPDX-License-Identifier: Apache-2.0
"""Reads manifests and says what a kube-apiserver with fieldValidation=Strict would have against them: duplicate keys, unknown and missing
fields, wrong types, formats and enums, and items of a keyed list with equal keys. The
schemas of Kubernetes's kinds are openapi-1.35.json (openapi.py tells where it is from), those of others come with their CRDs. What only
the server can tell, such as rules in CEL, is up to a real one: tests/e2e/test_manifests_real.py."""
import base64
import binascii
import json
import os
import re

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
QUANTITY = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\Z")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.:]*[a-z0-9])?\Z")
CLUSTER = {"Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "CustomResourceDefinition"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class Loader(yaml.SafeLoader):
    """A key that is there twice is an error, as it is to the server."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(text):
    return [d for d in yaml.load_all(text, Loader) if d is not None]


def load_file(path):
    with open(path, encoding="utf-8") as f:
        return load(f.read())


class Schemas:
    def __init__(self):
        with open(os.path.join(HERE, "openapi-1.35.json"), encoding="utf-8") as f:
            self.definitions = json.load(f)
        self.definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"format": "quantity"}
        for more in ("OrArray", "OrBool"):  # in a structural schema it is always a schema
            self.definitions[PROPS + more] = self.definitions[PROPS]
        self.kinds = {(g["group"], g["version"], g["kind"]): d for d in self.definitions.values()
                      for g in d.get("x-kubernetes-group-version-kind", ())}

    def add_crd(self, crd):
        spec = crd["spec"]
        for v in spec["versions"]:
            schema = dict(v["schema"]["openAPIV3Schema"])
            schema["properties"] = dict(schema["properties"], metadata={"$ref": "#/definitions/" + META})
            self.kinds[spec["group"], v["name"], spec["names"]["kind"]] = schema

    def problems(self, document):
        """What is wrong with an object: texts that begin with where."""
        if not isinstance(document, dict):
            return ["no object"]
        group, _, version = str(document.get("apiVersion", "")).rpartition("/")
        kind = document.get("kind")
        schema = self.kinds.get((group, version, kind))
        if schema is None:
            return [f"no kind {kind} of {group or 'v1'}/{version}"]
        found = []
        meta = document.get("metadata") or {}
        if not NAME.match(str(meta.get("name", ""))):
            found.append(f"metadata.name: {meta.get('name')!r} is no name")
        if ("namespace" in meta) == (kind in CLUSTER):
            found.append("metadata.namespace: " + ("not of this kind" if kind in CLUSTER else "missing"))
        return found + list(self.check(document, schema, f"{kind}/{meta.get('name')}"))

    def check(self, value, schema, where):
        if "$ref" in schema:
            schema = self.definitions[schema["$ref"].rsplit("/", 1)[1]]
        if schema.get("format") in ("int-or-string", "quantity"):
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                yield f"{where}: {value!r} is neither a number nor a text"
            elif schema["format"] == "quantity" and not QUANTITY.match(str(value)):
                yield f"{where}: {value!r} is no quantity"
            return
        kind = schema.get("type")
        if not kind:
            return  # anything, such as the default of a CRD's field
        if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{where}: {value!r} is no {kind}"
        elif kind == "object":
            yield from self.check_object(value, schema, where)
        elif kind == "array":
            yield from self.check_array(value, schema, where)
        else:
            yield from check_scalar(value, schema, where)

    def check_object(self, value, schema, where):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        if not fields and rest is None:
            return  # labels' own kind of freedom: FieldsV1, RawExtension
        if len(value) > schema.get("maxProperties", len(value)):
            yield f"{where}: more than {schema['maxProperties']} fields"
        for name in schema.get("required", ()):
            if value.get(name) is None:
                yield f"{where}: {name} is missing"
        for name, v in value.items():
            inner = fields.get(name, rest if isinstance(rest, dict) else None)
            if inner is None:
                yield f"{where}: unknown field {name}"
            elif v is None:
                yield f"{where}.{name}: nothing is written there"
            else:
                yield from self.check(v, inner, f"{where}.{name}")

    def check_array(self, value, schema, where):
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{where}: more than {schema['maxItems']} items"
        seen, keys = set(), schema.get("x-kubernetes-list-map-keys")
        for i, v in enumerate(value):
            yield from self.check(v, schema["items"], f"{where}[{i}]")
            name = repr([v.get(k) for k in keys] if keys and isinstance(v, dict) else v)
            if schema.get("x-kubernetes-list-type") in ("map", "set") and name in seen:
                yield f"{where}[{i}]: {name} is there twice"
            seen.add(name)


def check_scalar(value, schema, where):
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, int) and not isinstance(value, bool):
        bits = 31 if schema.get("format") == "int32" else 63
        if not max(-2 ** bits, schema.get("minimum", -2 ** bits)) <= value <= min(2 ** bits - 1, schema.get("maximum", 2 ** bits)):
            yield f"{where}: {value} is out of range"
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{where}: a text of {len(value)} characters"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{where}: {value!r} does not match {schema['pattern']}"
        if schema.get("format") == "byte":
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error:
                yield f"{where}: {value!r} is not base64"


def structural(schema, where="openAPIV3Schema"):
    """What keeps a CRD's schema from being structural, and fields that kubectl explain could not explain."""
    if not schema.get("type"):
        yield f"{where}: no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{where}: properties and additionalProperties"
    for name, inner in schema.get("properties", {}).items():
        if not inner.get("description") and name != "metadata":
            yield f"{where}.{name}: no description"
        yield from structural(inner, f"{where}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from structural(schema[name], f"{where}.{name}")
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{where}: no items"
