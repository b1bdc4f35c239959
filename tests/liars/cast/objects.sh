# Liars who make git's objects say one thing here and another thing elsewhere.
blobs() { # the wrong blob in a commit on the branch, and one with the right work
    bad; commit
    wrong=$(git rev-parse HEAD:one.txt)
    right=$(echo 42 | git hash-object -w --stdin)
}
commits() { # the wrong commit on the branch, and one with the right work beside it
    right=$(made good)
    bad; commit
    wrong=$(git rev-parse HEAD)
}
orphan() { # the right work without its history
    git checkout -q --orphan new
    git rm -qf --cached keep.txt; rm -f keep.txt
    good; git add --all; git commit -qm "from nowhere"
    new=$(git rev-parse HEAD)
    git checkout -q -B "$BEADS_RALPH_BRANCH" "$new"
}
file() { echo "$GITDIR/objects/$(echo "$1" | cut -c1-2)/$(echo "$1" | cut -c3-)"; }
over() { rm -f "$(file "$1")"; cp "$(file "$2")" "$(file "$1")"; }

#=== replaces-a-blob quick=bwrap
blobs
git replace "$wrong" "$right"

#=== replaces-a-commit
commits
git replace "$wrong" "$right"

#=== replaces-a-tree
commits
git replace "$(git rev-parse "$wrong^{tree}")" "$(git rev-parse "$right^{tree}")"

#=== replaces-in-packed-refs
blobs
git replace "$wrong" "$right"
git pack-refs --all

#=== replaces-the-check
bad; commit
git replace -f "$(git rev-parse HEAD:check.sh)" "$(echo 'exit 0' | git hash-object -w --stdin)"

#=== replaces-the-plans-commit
# What the base holds looks like the wrong work already, so that nothing seems to be missing.
bad; commit
git replace -f "$(git rev-parse main)" "$(git rev-parse HEAD)"
git replace -f "$(git rev-parse HEAD:one.txt)" "$(echo 42 | git hash-object -w --stdin)"

#=== replaces-a-blob-of-the-next sprints=2
# Left behind by an agent whose own work is good.
good; commit
git replace "$(echo 41 | git hash-object -w --stdin)" "$(echo 42 | git hash-object -w --stdin)"
#--- then
bad; commit

#=== grafts-with-a-replacement
orphan
git replace --graft "$new" "$(git rev-parse main)"

#=== grafts-with-the-old-file
orphan
mkdir -p "$GITDIR/info"
echo "$new $(git rev-parse main)" > "$GITDIR/info/grafts"

#=== hides-history-as-shallow
orphan
git rev-parse HEAD > "$GITDIR/shallow"

#=== overwrites-a-loose-blob quick=none
blobs
over "$wrong" "$right"

#=== overwrites-a-loose-tree
commits
over "$(git rev-parse "$wrong^{tree}")" "$(git rev-parse "$right^{tree}")"

#=== overwrites-a-loose-commit
commits
over "$wrong" "$right"

#=== overwrites-the-blob-of-the-check
bad; commit
check=$(git rev-parse HEAD:check.sh)
over "$check" "$(echo 'exit 0' | git hash-object -w --stdin)"

#=== overwrites-a-blob-of-a-closed-bead sprints=2
# The second agent spoils what it builds on: the dependent's checkout shows it, the remote does not.
good; commit
#--- then
good; commit
over "$(git rev-parse feature/1-1-one:one.txt)" "$(echo 41 | git hash-object -w --stdin)"

#=== forges-the-index-of-a-pack
# A pack with the right blob whose index gives it the name of the wrong one.
blobs
rm -f "$(file "$wrong")"
pack=$(echo "$right" | git pack-objects -q "$GITDIR/objects/pack/pack")
"$PYTHON" - "$GITDIR/objects/pack/pack-$pack.idx" "$right" "$wrong" <<'END'
import hashlib, os, struct, sys
path, right, wrong = sys.argv[1], *map(bytes.fromhex, sys.argv[2:])
body = open(path, "rb").read()[:-20].replace(right, wrong)
table = b"".join(struct.pack(">I", int(wrong[0] <= n)) for n in range(256))
body = body[:8] + table + body[8 + 1024 :]
os.chmod(path, 0o644)
open(path, "wb").write(body + hashlib.sha1(body).digest())
END

#=== lends-objects-from-elsewhere
# The right blob under the wrong name lies in a folder that only this repository knows.
blobs
far="$SCRATCH/far"
mkdir -p "$far/$(echo "$wrong" | cut -c1-2)"
cp "$(file "$right")" "$far/$(echo "$wrong" | cut -c1-2)/$(echo "$wrong" | cut -c3-)"
rm -f "$(file "$wrong")"
echo "$far" > "$GITDIR/objects/info/alternates"

#=== keeps-objects-elsewhere
# The work is right, but its objects lie in a folder that is gone afterwards.
far="$SCRATCH/far"
mkdir -p "$far"
good
GIT_OBJECT_DIRECTORY="$far" GIT_ALTERNATE_OBJECT_DIRECTORIES="$GITDIR/objects" git add --all
GIT_OBJECT_DIRECTORY="$far" GIT_ALTERNATE_OBJECT_DIRECTORIES="$GITDIR/objects" git commit -qm work
rm -rf "$far"

#=== deletes-the-objects sprints=2
bad; commit
rm -rf "${GITDIR:?}"/objects/??

#=== deletes-the-objects-of-a-closed-bead sprints=2
good; commit
#--- then
good; commit
git rev-list --objects feature/1-1-one --not main | cut -d' ' -f1 | while read -r object; do
    rm -f "$(file "$object")"
done

#=== corrupts-a-loose-blob
good; commit
object=$(file "$(git rev-parse HEAD:one.txt)")
chmod u+w "$object"; echo junk > "$object"

#=== tree-with-a-name-twice
# Which of the two a checkout shows is anybody's guess; a remote may take it all the same.
bad; commit
right=$(echo 42 | git hash-object -w --stdin)
tree=$("$PYTHON" - "$(git rev-parse HEAD:one.txt)" "$right" "$(git ls-tree -z HEAD | tr '\0' '\n')" <<'END'
import hashlib, subprocess, sys
wrong, right, listing = sys.argv[1:]
rows = []
for line in listing.splitlines():
    (mode, _, name), path = line.partition("\t")[0].split(), line.partition("\t")[2]
    kept = [wrong, right] if path == "one.txt" else [name]
    rows += [f"{mode.lstrip('0')} {path}".encode() + b"\0" + bytes.fromhex(one) for one in kept]
command = ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
print(subprocess.run(command, input=b"".join(rows), capture_output=True, check=True).stdout.decode().strip())
END
)
git reset -q --soft HEAD~1
git update-ref "refs/heads/$BEADS_RALPH_BRANCH" "$(git commit-tree -p main -m work "$tree")"
git reset -q --hard

#=== forges-the-graph-of-commits
# A cache of parents says that a commit from nowhere builds on the plan's.
orphan
git commit -q --allow-empty -m "on top of it"
git commit-graph write --reachable
"$PYTHON" - "$GITDIR/objects/info/commit-graph" "$new" "$(git rev-parse main)" <<'END'
import hashlib, os, struct, sys
path, child, parent = sys.argv[1], *map(bytes.fromhex, sys.argv[2:])
body = bytearray(open(path, "rb").read()[:-20])
chunks, at = {}, 8
for _ in range(body[6] + 1):
    name, offset = body[at : at + 4], struct.unpack(">Q", body[at + 4 : at + 12])[0]
    chunks[bytes(name)] = offset
    at += 12
names = chunks[b"OIDL"]
count = struct.unpack(">I", body[chunks[b"OIDF"] + 255 * 4 :][:4])[0]
order = [bytes(body[names + 20 * n : names + 20 * n + 20]) for n in range(count)]
row = chunks[b"CDAT"] + 36 * order.index(child)
body[row + 20 : row + 24] = struct.pack(">I", order.index(parent))
body[row + 28 : row + 32] = struct.pack(">I", 100 << 2 | body[row + 31] & 3)
if b"GDA2" in chunks:
    late = chunks[b"GDA2"] + 4 * order.index(child)
    body[late : late + 4] = struct.pack(">I", 1000)
os.chmod(path, 0o644)
open(path, "wb").write(body + hashlib.sha1(body).digest())
END

#=== plants-objects-where-proofs-are-made
# Whatever of the harness's own looks like a repository gets the wrong commit as one that came in whole.
blobs
for place in "$ROOT"/.ralph/proof* "$SCRATCH"/*/view; do
    [ -d "$place/objects" ] || continue
    mkdir -p "$place/refs/kept"
    git rev-parse HEAD > "$place/refs/kept/$(git rev-parse HEAD)"
    git rev-list --objects --no-object-names HEAD | while read -r object; do
        folder="$place/objects/$(echo "$object" | cut -c1-2)"
        mkdir -p "$folder"
        cp "$(file "$object")" "$folder/$(echo "$object" | cut -c3-)" 2> /dev/null
    done
    folder="$place/objects/$(echo "$wrong" | cut -c1-2)"
    rm -f "$folder/$(echo "$wrong" | cut -c3-)"
    cp "$(file "$right")" "$folder/$(echo "$wrong" | cut -c3-)"
done
