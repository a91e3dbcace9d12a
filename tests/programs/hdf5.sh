# SPDX-License-Identifier: Apache-2.0
# h5py writes an HDF5 file that is chunked and compressed. h5ls, h5dump, h5diff, h5repack, h5copy and h5stat work on it.
# needs: python3 h5dump h5diff h5repack h5copy h5ls h5stat
python=/usr/bin/python3  # that of the package python3-h5py
$python -c 'import h5py' 2> "$local/said" || skip "hdf5 needs python3-h5py"
cat > "$local/write.py" <<'END'
import sys
import h5py
import numpy
table = numpy.arange(400 * 300, dtype="i4").reshape(400, 300)
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("plain", data=table)
    f.create_dataset("packed", data=table, chunks=(40, 30), compression="gzip", shuffle=True, fletcher32=True)
    group = f.create_group("a/b")
    group.attrs["name"] = "x" * 1000
    grown = group.create_dataset("grown", shape=(0,), maxshape=(None,), chunks=(1000,), dtype="f8")
    for i in range(20):
        grown.resize((len(grown) + 777,))
        grown[-777:] = i
    f["link"] = h5py.SoftLink("/a/b")
with h5py.File(sys.argv[1], "r+") as f:
    f["plain"][100:200, 50:60] += 7
    del f["a/b"].attrs["name"]
    assert f["packed"][399, 299] == 400 * 300 - 1 and f["link/grown"][-1] == 19
END
$python "$local/write.py" f.h5 && $python "$local/write.py" "$local/f.h5"
h5diff f.h5 "$local/f.h5"
h5dump f.h5 | sed 1d | cmp - <(h5dump "$local/f.h5" | sed 1d)
equal "$(h5ls -r f.h5)" "$(h5ls -r "$local/f.h5")"
h5repack -f GZIP=5 -l CHUNK=20x20 f.h5 packed.h5 && h5diff f.h5 packed.h5
h5repack -f NONE -l CONTI packed.h5 "$local/unpacked.h5" && h5diff f.h5 "$local/unpacked.h5"
h5copy -i packed.h5 -o f.h5 -s /plain -d /again && h5diff f.h5 f.h5 /plain /again
h5stat f.h5 | grep -q 'Number of datasets'
if h5diff -q f.h5 "$local/f.h5" /plain /packed; then exit 1; fi
# The file that is being written is locked, so a second writer gets an error.
$python - f.h5 <<'END'
import subprocess
import sys
import h5py
with h5py.File(sys.argv[1], "r+"):
    again = subprocess.run([sys.executable, "-c", "import h5py; h5py.File(%r, 'r+')" % sys.argv[1]], stderr=subprocess.PIPE)
assert again.returncode != 0 and b"lock" in again.stderr, again
END
