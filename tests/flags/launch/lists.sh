gcloud run jobs create x --set-env-vars=NCCL_DEBUG=INFO,JAX_PLATFORMS=cuda --env-vars-file y
docker run -e NCCL_DEBUG_SUBSYS=INIT,NET image
