# SPDX-License-Identifier: Apache-2.0
"""lib/bucket's suite (bucket_test) over real object stores, also through a proxy that spoils requests and answers."""
import os
import re

from harness import LONG, Skip, alone, check, run, slow
from object_stores import ACCESS_KEY, BUCKET, SECRET_KEY, Rgw, Versitygw, section, signed
from s3_proxy import S3Proxy
from test_web_config import Certificates


def bucket_test(env):
    """The program. The quick tiers build it elsewhere, with sanitizers."""
    path = os.path.join(env.build, "bucket_test")
    with alone(env, "bucket_test"):
        if not os.access(path, os.X_OK):
            rc, out = run(["make", "-C", env.build, "-s", "bucket_test"], 600)
            if rc:
                raise Skip(f"bucket_test cannot be built: {out[-300:].strip()}")
    return path


def suite(env, config, seconds=300, **variables):
    """Runs it over the store of that configuration; what it said."""
    rc, out = run([bucket_test(env)], seconds, env=dict(os.environ, PYRRHA_BUCKET_CONFIG=env.path("storage.yml", config), **variables))
    with open(env.path("suite.log"), "w", encoding="utf-8") as f:
        f.write(out)
    check(SECRET_KEY not in out and "Signature=" not in out, f"a secret is in what it says: {out[-3000:]}")
    over_the_store = out.rsplit("[==========] Running ", 1)[-1]
    check(rc == 0 and re.match(r"[0-9]+ test", over_the_store) and out.count("[==========] Running ") == 2, f"the suite: {out[-3000:]}")
    return out


def nothing_is_left(port):
    """The suite removes what it puts; probes whose answers were lost may stay."""
    _, text = signed(port, "GET", f"/{BUCKET}", "list-type=2&prefix=suite%2F")
    keys = [k for k in re.findall("<Key>([^<]*)</Key>", text.decode()) if "/probe-" not in k]
    check(not keys, f"objects are left behind: {keys[:5]}")


def test_versitygw(env):
    store = Versitygw(env)
    suite(env, section(store.port))
    nothing_is_left(store.port)


def test_tls_and_credentials_of_the_environment(env):
    make = Certificates(env)
    make.authority("ca")
    make.signed("server", "ca")
    store = Versitygw(env, ["--cert", make.path("server.crt"), "--key", make.path("server.key")], bucket="made-in-its-directory")
    more = f"      http_config:\n        tls_config:\n          ca_file: {make.path('ca.crt')}\n"
    config = section(store.port, bucket="made-in-its-directory", access_key=None, more=more).replace("insecure: true", "insecure: false")
    suite(env, config, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)


@slow
def test_versitygw_through_faults(env):
    """One request in twenty has a fault; a call has five attempts."""
    store = Versitygw(env)
    proxy = S3Proxy(env, store.port, seed=int(os.environ.get("PYRRHA_SEED", "41")), share=0.05)
    suite(env, section(proxy.port), 600)
    check(proxy.requests > 200 and sum(proxy.count.values()) > 10, f"too little happened: {proxy.requests} {proxy.count}")


def test_ceph(env):
    if not LONG:
        raise Skip("only in long runs")
    store = Rgw(env)
    suite(env, section(store.port))
    nothing_is_left(store.port)
    for seed in range(3):
        proxy = S3Proxy(env, store.port, seed=seed, share=0.05)
        suite(env, section(proxy.port, prefix=f"faults-{seed}"), 900)
