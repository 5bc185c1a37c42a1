#!/bin/sh
# Installs a trainer for tests/trainers/test_real_trainers.py: into a cache outside the checkout, by
# the names of the packages, so that it is done once for each list of them. Prints the environment,
# or nothing and the reason on stderr. Two at a time wait for each other. AXLearn is in no registry:
# AXLEARN_CHECKOUT names a checkout of it.
set -u
name=$1
base=${COUNTERPOINT_TRAINERS:-${XDG_CACHE_HOME:-$HOME/.cache}/counterpoint-trainers}
# What counterpoint itself needs, since predict compiles with the trainer's own JAX.
own="numpy polars protobuf fsspec brotli cyclopts pyyaml rich scipy msgspec packaging optuna"
case $name in
maxtext)
    first="--no-deps maxtext==0.2.5"
    then="jax[cuda13-local]>=0.11.1 flax optax orbax-checkpoint grain[parquet] omegaconf pydantic transformers sentencepiece
        tiktoken datasets aqtp qwix tokamax pathwaysutils drjax ml-collections jaxtyping jsonlines pillow
        absl-py jinja2 sympy" ;;
frameworks)
    first="google-tunix==0.1.7"
    then="jax[cuda13-local]>=0.11,<0.12 libtpu flax optax equinox keras dm-haiku numpyro diffrax brax grain
        orbax-checkpoint" ;;
levanter)
    first="--pre marin-levanter==0.2.*"
    then="jax[cuda13-local]>=0.9.2,<0.12" ;;
axlearn) # as its pyproject.toml, but for its own builds of TensorFlow
    [ -d "${AXLEARN_CHECKOUT:-}/axlearn" ] || {
        echo "skipped, since AXLEARN_CHECKOUT names no checkout of AXLearn, which no registry has" >&2
        exit 0
    }
    first="uv" # pip searches for versions that fit, without an end
    then="jax==0.8.3 jaxlib==0.8.3 absl-py==2.3.1 aqtp==0.9.0 attrs chex==0.1.91 etils[epy]==1.13.0
        flax>=0.12.0 grain==0.2.11 ml-dtypes==0.5.3 msgpack==1.1.0 nltk==3.9.2 numpy>=2.0,<3 optax==0.2.6
        portpicker prefixed==0.9.0 pyarrow<21.0.0 scipy sentencepiece<0.2.1 seqio==0.0.20 tensorflow==2.19.1
        tensorflow-datasets==4.9.9 tensorflow-metadata==1.17.3 tensorflow-text==2.19.0 tensorstore>=0.1.63
        tokamax toml typing-extensions==4.15.0"
    own= ;; # TensorFlow's protobuf is too old for counterpoint: its own Python predicts
*)
    echo "error: no list of packages for $name" >&2
    exit 2 ;;
esac
for python in ${TRAINER_PYTHON:-} python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python; do
    "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null && break
    python=
done
[ -n "$python" ] || { echo "skipped, since there is no Python 3.12" >&2; exit 0; }
environment=$base/$name-$(echo "$first $then $own" | cksum | cut -d' ' -f1)
mkdir -p "$base" || exit 0
exec 9>"$environment.lock"
flock 9 2>/dev/null
if [ ! -f "$environment/ready" ]; then
    rm -rf "$environment"
    echo "installing $name into $environment (minutes, once)" >&2
    pip="$environment/bin/python -m pip install --quiet --disable-pip-version-check"
    second=$pip
    [ "$first" = uv ] && second="$environment/bin/uv pip install --quiet --python $environment/bin/python"
    # shellcheck disable=SC2086
    if "$python" -m venv "$environment" && $pip $first >"$environment.log" 2>&1 \
        && $second $then $own >>"$environment.log" 2>&1; then
        touch "$environment/ready"
    else
        echo "skipped, since pip could not install it:" >&2
        tail -n 2 "$environment.log" >&2
        exit 0
    fi
fi
[ "$name" = axlearn ] && echo "$AXLEARN_CHECKOUT" >"$("$environment/bin/python" -c 'import site; print(site.getsitepackages()[0])')/axlearn-checkout.pth"
echo "$environment"
