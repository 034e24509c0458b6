#!/bin/sh
# audit.sh DIR [sha256:DIGEST]: checks a snapshot with sha256sum, jq and find alone; 0 if all matches, 1 if not.
# Its verdict is that of `skillfreeze verify --portable`. It cannot see: modes beyond the execute bit (a copy
# need not keep them); ids, versions and paths that no package may have (the shell has no Unicode tables), as
# long as the files are there under them; and changes between its looks, as it opens by path: audit a copy.
set -u
cd "${1:-/nonexistent}" 2>&- || { echo "usage: audit.sh DIR [sha256:DIGEST]" >&2; exit 2; }
m=.snapshot.json
faults=$({ # An ordinary file, of the length that verify reads; its digest; then its form, by writing it anew.
  [ -n "$(find $m -type f -size -131073 2>&-)" ] || { echo "$m: missing, or no manifest"; exit; }
  sum=$(sha256sum <$m); [ "${2:-sha256:${sum%% *}}" = "sha256:${sum%% *}" ] || { echo "manifest-digest: found sha256:${sum%% *}"; exit; }
  [ "$sum" = "$(jq -ncSj 'input | {schema: "skillfreeze.snapshot.v1", packages: .packages | unique_by(.id) | map(
    {digest, id, revision: .digest[7:19], files: .files | unique_by(.path) | map({digest, executable, path, size})}
    + if .version then {version} else {} end)}' $m | sha256sum)" ] || { echo manifest-invalid; exit; }
  # What is there against what the manifest has.
  { find . -mindepth 1 -printf '%y %m %s %P\0'; find . -type f -exec sha256sum -z -- {} +; } | jq -Rsr --slurpfile m $m '
    def object(f; v): map({key: f, value: v}) | from_entries; (. / "\u0000" | map(select(. != ""))) as $lines
    | ($m[0].packages | map(.id as $id | .files[] | .path |= "\($id)/\(.)") | object(.path; .)) as $files
    | ($files | keys | map(. / "/" | range(1; length) as $n | .[:$n] | join("/")) | object(.; "d")) as $dirs
    | ($lines | map(select(test("^[0-9a-f]{64}  ./"))) | object(.[68:]; "sha256:" + .[:64])) as $sums
    | [$lines[] | select(test("^[^ ] ")) / " " | {t: .[0], m: .[1], s: .[2] | tonumber, p: .[3:] | join(" ")}] as $found
    | ($files + $dirs | keys) - [$found[].p] | map("missing \(.)") + [$found[] | select(.p != ".snapshot.json")
    | $files[.p] as $f | if .t == "d" and $dirs[.p] then empty elif .t != "f" or $f == null then "unexpected \(.p)"
      elif .s != $f.size then "wrong-size \(.p)" elif $sums[.p] != $f.digest then "wrong-hash \(.p)"
      elif (.m[-3:] | explode | any(. % 2 == 1)) != $f.executable then "wrong-mode \(.p)" else empty end] | .[]'
  jq -r '.packages[] | "\(.digest) \(.id) skillfreeze package v1\\n" + (.files | map("\(if .executable then 100755
    else 100644 end) \(.size) \(.digest[7:]) \(.path)\\n") | add)' $m | while read -r digest id listing; do
    sum=$(printf %b "$listing" | sha256sum); [ "$digest" = "sha256:${sum%% *}" ] || echo "package-digest $id"; done
} 2>&1); [ -n "$faults" ] || exec printf 'matches sha256:%.64s\n' "$(sha256sum <$m)"; printf '%s\n' "$faults"; exit 1
