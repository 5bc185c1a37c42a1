import os


def gpu(devices):
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"


class Runner:
    def tpu(self):
        if self.fast:
            os.environ["LIBTPU_INIT_ARGS"] = "--xla_tpu_a=true"


if __name__ == "__main__":
    os.environ["JAX_ENABLE_X64"] = "1"
