# SPDX-License-Identifier: Apache-2.0
"""Object stores to test against: versitygw, a small S3 over a directory, and Ceph's RGW over a cluster of one node in memory. Both listen on
127.0.0.1 only."""
import hashlib
import hmac
import http.client
import os
import platform
import re
import shutil
import socket
import time
import uuid

from harness import Process, Skip, alone, check, free_port, run, wait_until

VERSITYGW, GO = "github.com/versity/versitygw/cmd/versitygw@v1.8.0", "go1.25.0"
ACCESS_KEY, SECRET_KEY, BUCKET = "PYRRHATESTS", "secretOfPyrrhasTests", "pyrrha"


def signed(port, method, path, query="", body=b""):
    """(status, body) of a request to S3 at this port, signed without the help of the code that is tested."""
    def of(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256).digest()
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    day, digest, host = now[:8], hashlib.sha256(body).hexdigest(), f"127.0.0.1:{port}"
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, query] + [f"{k}:{headers[k]}" for k in sorted(headers)] + ["", names, digest])
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = of(of(of(of(b"AWS4" + SECRET_KEY.encode(), day), "us-east-1"), "s3"), "aws4_request")
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={of(key, text).hex()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path + ("?" + query if query else ""), body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def section(port, bucket=BUCKET, prefix="suite", access_key=ACCESS_KEY, secret_key=SECRET_KEY, more=""):
    """A configuration whose object_storage is the store at this port. access_key None: the section has no credentials."""
    keys = "" if access_key is None else f"      access_key: {access_key}\n      secret_key: {secret_key}\n"
    return ("object_storage:\n  bucket:\n    type: S3\n" f"    prefix: {prefix}\n"
            f"    config:\n      bucket: {bucket}\n      endpoint: 127.0.0.1:{port}\n      insecure: true\n{keys}{more}")


def newer_go(env, cache):
    """A go that can build versitygw: the one that is there, or the one that the module proxy has, which needs no newer go to be fetched."""
    rc, out = run(["go", "env", "GOVERSION"], 60)
    found = re.match(r"go1\.([0-9]+)", out)
    if rc == 0 and found and int(found[1]) >= 21:
        return "go"  # it fetches a newer one by itself
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    rc, out = run(["go", "mod", "download", "-json", f"golang.org/toolchain@v0.0.1-{GO}.linux-{machine}"], 600, cwd=env.dir)
    folder = re.search('"Dir": "([^"]+)"', out)
    if rc or not folder:
        raise Skip(f"versitygw needs a newer go, which cannot be had: {out[-300:].strip()}")
    own = os.path.join(cache, GO)  # the module cache is read-only, and its files are no programs
    if not os.path.exists(own):
        shutil.copytree(folder[1], own + ".new")
        run(["chmod", "-R", "u+rwx", own + ".new"])
        os.rename(own + ".new", own)
    return os.path.join(own, "bin", "go")


def versitygw(env):
    """The program: of $PYRRHA_VERSITYGW, of the PATH, of ~/go/bin, or built into a cache that later runs find."""
    named = os.environ.get("PYRRHA_VERSITYGW")
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pyrrha-tests")
    places = [named] if named else [shutil.which("versitygw"), os.path.expanduser("~/go/bin/versitygw"), os.path.join(cache, "versitygw")]
    with alone(env, "versitygw"):
        for path in places:
            if path and os.access(path, os.X_OK):
                return path
        if named:
            raise Skip(f"$PYRRHA_VERSITYGW is no program: {named}")
        if not shutil.which("go"):
            raise Skip("no versitygw, and no go to build it")
        os.makedirs(cache, exist_ok=True)
        go, out = newer_go(env, cache), ""
        variables = dict(os.environ, GOBIN=cache, GOFLAGS="-mod=mod", GOTOOLCHAIN="auto")
        if go != "go":
            variables.pop("GOROOT", None)
        try:
            rc, out = run([go, "install", VERSITYGW], 1200, env=variables, cwd=env.dir)
        except AssertionError as e:
            rc, out = 1, str(e)
    path = os.path.join(cache, "versitygw")
    if rc or not os.access(path, os.X_OK):
        raise Skip(f"versitygw cannot be built: {out[-300:].strip()}")
    return path


class Versitygw(Process):
    def __init__(self, env, more=(), bucket=BUCKET):
        program, self.port = versitygw(env), free_port()
        data, side = env.path("buckets"), env.path("sidecar")
        os.makedirs(os.path.join(data, bucket))
        os.makedirs(side)
        super().__init__(env, "versitygw", [program, "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"127.0.0.1:{self.port}", "--quiet", *more,
                                            "posix", "--sidecar", side, data])
        wait_until("versitygw listens", lambda: socket.create_connection(("127.0.0.1", self.port), 1).close() is None)


def make_bucket(port, bucket=BUCKET):
    wait_until("the store has a bucket", lambda: signed(port, "PUT", "/" + bucket)[0] in (200, 409), 60)


CEPH = """[global]
fsid = {fsid}
mon_initial_members = a
mon_host = [v2:127.0.0.1:{mon}/0,v1:127.0.0.1:{mon1}/0]
# Without credentials of its own: with them radosgw hangs where nothing else of a cluster is set up.
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
ms_mon_client_mode = crc
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 1
mon_data_avail_warn = 1
run_dir = {dir}
admin_socket = {dir}/$name.asok
log_file = {dir}/$name.log
pid_file = {dir}/$name.pid
crash_dir = {dir}
mon_data = {dir}/mon
osd_data = {dir}/osd
keyring = {dir}/keyring
[client.rgw.a]
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_thread_pool_size = 32
"""


class Rgw:
    """A monitor, a store in memory and the gateway; a manager is not needed for I/O."""

    def __init__(self, env):
        for program in ("ceph", "ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph-authtool"):
            if not shutil.which(program):
                raise Skip(f"no {program} (apt-get install --no-install-recommends ceph-mon ceph-osd radosgw)")
        folder, fsid, mon, mon1, self.port = env.path("ceph"), str(uuid.uuid4()), free_port(), free_port(), free_port()
        for name in ("", "mon", "osd"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        conf = env.path("ceph/ceph.conf", CEPH.format(fsid=fsid, mon=mon, mon1=mon1, dir=folder, port=self.port))
        self.env, self.common = env, ["-c", conf]
        monmap, osd = os.path.join(folder, "monmap"), str(uuid.uuid4())
        self.must("ceph-authtool", "--create-keyring", os.path.join(folder, "keyring"), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *", plain=True)
        self.must("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{mon},v1:127.0.0.1:{mon1}]", monmap, plain=True)
        self.must("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", os.path.join(folder, "keyring"))
        Process(env, "ceph-mon", ["ceph-mon", *self.common, "-i", "a", "-f"])
        self.must("ceph", "osd", "new", osd)
        self.must("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        Process(env, "ceph-osd", ["ceph-osd", *self.common, "-i", "0", "-f"])
        Process(env, "radosgw", ["radosgw", *self.common, "-n", "client.rgw.a", "-f"])
        self.must("radosgw-admin", "user", "create", "--uid", "tests", "--display-name", "tests", "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)
        make_bucket(self.port)

    def must(self, program, *arguments, plain=False):
        rc, out = run([program, *([] if plain else self.common), *arguments], 120)
        check(rc == 0, f"{program} {' '.join(arguments)}: {out}")
