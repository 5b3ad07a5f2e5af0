# SPDX-License-Identifier: Apache-2.0
"""OCI archives, as deploy/image.sh makes them: made for a test, taken apart without any tool of containers."""
import hashlib
import json
import os
import shutil
import tarfile

from harness import RUN, TOP, Skip, alone, check, run


def need_programs(env):
    """Skips where deploy/image.sh cannot take the programs of this build."""
    if os.geteuid() != 0:
        raise Skip("files of an image belong to root and others")
    with open(env.program("pyrrha-agent"), "rb") as f:
        if b"__asan_init" in f.read():
            raise Skip("a sanitizer's build: its library is no part of an image")


def make_image(env, kind, output=None, **more):
    """What deploy/image.sh made of the programs of this build: its archive, its lines, its SBOM."""
    if not shutil.which("buildah"):
        raise Skip("no buildah")
    need_programs(env)
    output = output or env.path("images")
    code, said = run([os.path.join(TOP, "deploy", "image.sh"), "--build", env.build, "--output", output, kind], 300,
                     env=dict(os.environ, TMPDIR=env.dir, SOURCE_DATE_EPOCH="1700000000", **more))
    check(code == 0, f"image.sh {kind}: {code}, {said}")
    return Image(said.splitlines()[-1].split()[0])


def image(env, kind):
    """The same, made once for all tests of this run."""
    output = os.path.join(env.build, "e2e", f"images-{RUN}")
    with alone(env, "image-" + kind):
        told = os.path.join(output, kind + ".path")
        if not os.path.exists(told):
            path = make_image(env, kind, output).path
            with open(told, "w", encoding="utf-8") as f:
                f.write(path)
        with open(told, encoding="utf-8") as f:
            return Image(f.read())


class Image:
    """An archive of one image: .config is its OCI configuration, .tag what it is called."""

    def __init__(self, path):
        self.path, self.size = path, os.path.getsize(path)
        self.sbom = path.replace(".oci.tar", ".spdx.json")
        with tarfile.open(path) as t:
            index = json.load(t.extractfile("index.json"))
            check(len(index["manifests"]) == 1, f"{index}")
            self.digest = index["manifests"][0]["digest"]
            self.tag = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
            self.manifest = json.loads(self.blob(t, self.digest))
            self.config = json.loads(self.blob(t, self.manifest["config"]["digest"]))

    @staticmethod
    def blob(t, digest):
        body = t.extractfile("blobs/" + digest.replace(":", "/")).read()
        check("sha256:" + hashlib.sha256(body).hexdigest() == digest, f"{digest} is another")
        return body

    def members(self):
        """name -> its tarfile.TarInfo, of all layers."""
        return {m.name.rstrip("/"): m for layer, t in self.layers() for m in t}

    def layers(self):
        with tarfile.open(self.path) as t:
            for d in self.manifest["layers"]:
                with tarfile.open(fileobj=t.extractfile("blobs/" + d["digest"].replace(":", "/")), mode="r|gz") as layer:
                    yield d, layer

    def unpack(self, env, name):
        """Its files, with their owners, as long as the test runs."""
        root = env.path(name)
        env.at_end(lambda: shutil.rmtree(root, True))
        for _, layer in self.layers():
            layer.extractall(root, numeric_owner=True)
        return root
