import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=%d" % count
os.environ["LIBTPU_INIT_ARGS"] = "--xla_tpu_a={} --xla_tpu_b=1".format(level)
flags = "--xla_a=1" + (" --xla_b=2" if fast else " --xla_c=3")
os.environ["XLA_FLAGS"] += " " + flags
os.environ["JAX_PLATFORMS"] = "cpu" if test else "cuda"
