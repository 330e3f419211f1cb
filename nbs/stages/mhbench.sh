# What dvc.yaml runs: the mhbench of the environment that DVC runs in, whether the PATH holds it or not.
# It lies beside the interpreter of DVC, the process above this one (or above its shell), else on the PATH or in .venv.
of() {  # PROCESS: the first word of its command, where Linux tells it, or elsewhere ps
  if [ -r "/proc/$1/cmdline" ]; then tr '\0' '\n' < "/proc/$1/cmdline" | head -n 1; else ps -o command= -p "$1" | cut -d ' ' -f 1; fi
}
above() {  # PROCESS: the one that began it
  if [ -r "/proc/$1/status" ]; then sed -n 's/^PPid:[^0-9]*//p' "/proc/$1/status"; else ps -o ppid= -p "$1" | tr -d ' '; fi
}
export MHBENCH_FAILURES="${MHBENCH_FAILURES:-rows}"  # a stage of a study that fails leaves a row, and the run goes on; stop: it ends
MHBENCH_DVC=$PPID
case $(of "$PPID") in *sh) MHBENCH_DVC=$(above "$PPID") ;; esac
export MHBENCH_DVC  # the process with which what the stages of one run share ends
dvc=$(of "$MHBENCH_DVC")
for found in "$(dirname -- "$dvc")/mhbench" "$(command -v mhbench)" .venv/bin/mhbench; do
  if [ -f "$found" ] && [ -x "$found" ]; then exec "$found" "$@"; fi
done
echo "mhbench: must be installed beside DVC, be on the PATH or be in .venv; got none: activate its environment" >&2
exit 127
