#!/bin/sh
# Installs a trainer for tests/trainers/test_real_trainers.py: into a cache outside the checkout, by
# the content of this file, so that it is done once for each list of packages. Prints the environment,
# or nothing and the reason on stderr. Two at a time wait for each other.
set -u
name=$1
base=${COUNTERPOINT_TRAINERS:-${XDG_CACHE_HOME:-$HOME/.cache}/counterpoint-trainers}
# What counterpoint itself needs, since predict compiles with the trainer's own JAX.
own="numpy polars protobuf fsspec brotli cyclopts pyyaml rich scipy msgspec packaging optuna ruptures"
case $name in
maxtext)
    first="--no-deps maxtext==0.2.5"
    then="jax[cuda13-local]>=0.11.1 flax optax orbax-checkpoint grain[parquet] omegaconf pydantic transformers sentencepiece
        tiktoken datasets aqtp qwix tokamax pathwaysutils drjax ml-collections jaxtyping jsonlines pillow
        absl-py jinja2 sympy" ;;
tunix)
    first="google-tunix==0.1.7"
    then="jax[cuda13-local] flax optax equinox" ;;
levanter)
    first="--pre marin-levanter==0.2.*"
    then="jax[cuda13-local]>=0.9.2,<0.12" ;;
*)
    echo "error: no list of packages for $name" >&2
    exit 2 ;;
esac
for python in ${TRAINER_PYTHON:-} python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python; do
    "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null && break
    python=
done
[ -n "$python" ] || { echo "skipped, since there is no Python 3.12" >&2; exit 0; }
environment=$base/$name-$(cksum <"$0" | cut -d' ' -f1)
mkdir -p "$base" || exit 0
exec 9>"$environment.lock"
flock 9 2>/dev/null
if [ ! -f "$environment/ready" ]; then
    rm -rf "$environment"
    echo "installing $name into $environment (minutes, once)" >&2
    pip="$environment/bin/python -m pip install --quiet --disable-pip-version-check"
    # shellcheck disable=SC2086
    if "$python" -m venv "$environment" && $pip $first >"$environment.log" 2>&1 \
        && $pip $then $own >>"$environment.log" 2>&1; then
        touch "$environment/ready"
    else
        echo "skipped, since pip could not install it:" >&2
        tail -n 2 "$environment.log" >&2
        exit 0
    fi
fi
echo "$environment"
