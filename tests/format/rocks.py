# SPDX-License-Identifier: Apache-2.0
"""RocksDB directories, read without a change to them, and XXH3-64: Debian's own libraries, by way of ctypes."""
import ctypes
import ctypes.util


def _library(name, soname):
    return ctypes.CDLL(ctypes.util.find_library(name) or soname)


def _function(library, name, result, *arguments):
    f = getattr(library, name)
    f.restype, f.argtypes = result, arguments
    return f


_P, _N, _I, _C = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
_xxhash = _library("xxhash", "libxxhash.so.0")
_hash = _function(_xxhash, "XXH3_64bits_withSeed", ctypes.c_uint64, _C, _N, ctypes.c_uint64)
_rocksdb = _library("rocksdb", "librocksdb.so.7.8")
_ERROR = ctypes.POINTER(_P)
_open = _function(_rocksdb, "rocksdb_open_for_read_only", _P, _P, _C, ctypes.c_ubyte, _ERROR)
_close = _function(_rocksdb, "rocksdb_close", None, _P)
_options = _function(_rocksdb, "rocksdb_options_create", _P)
_read_options = _function(_rocksdb, "rocksdb_readoptions_create", _P)
_iterator = _function(_rocksdb, "rocksdb_create_iterator", _P, _P, _P)
_first = _function(_rocksdb, "rocksdb_iter_seek_to_first", None, _P)
_valid = _function(_rocksdb, "rocksdb_iter_valid", ctypes.c_ubyte, _P)
_next = _function(_rocksdb, "rocksdb_iter_next", None, _P)
_key = _function(_rocksdb, "rocksdb_iter_key", _P, _P, ctypes.POINTER(_N))
_value = _function(_rocksdb, "rocksdb_iter_value", _P, _P, ctypes.POINTER(_N))
_iter_error = _function(_rocksdb, "rocksdb_iter_get_error", None, _P, _ERROR)
_destroy = _function(_rocksdb, "rocksdb_iter_destroy", None, _P)


def xxh3(data, seed=0):
    return _hash(data, len(data), seed)


def _raise(path, error):
    if error.value:
        raise OSError(f"{path}: {ctypes.string_at(error.value).decode(errors='replace')}")


def rows(path):
    """[(key, value)] of the only column family of a database, ascending by key."""
    error, n, out = _P(), _N(), []
    db = _open(_options(), path.encode(), 0, ctypes.byref(error))
    _raise(path, error)
    it = _iterator(db, _read_options())
    _first(it)
    while _valid(it):
        p = _key(it, ctypes.byref(n))
        key = ctypes.string_at(p, n.value)
        p = _value(it, ctypes.byref(n))
        out.append((key, ctypes.string_at(p, n.value)))
        _next(it)
    _iter_error(it, ctypes.byref(error))
    _destroy(it)
    _close(db)
    _raise(path, error)
    return out
