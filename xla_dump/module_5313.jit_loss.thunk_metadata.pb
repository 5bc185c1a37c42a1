
*

loop_broadcast_fusionkCustomKernel
$

custom-call.4kCublasLtMatmul
"

partition-id.1kPartitionId
.

loop_dynamic_slice_fusionkCustomKernel


all-to-all.2	kAllToAll
#

all-gather-startkAsyncStart
"

all-gather-start
kAllGather
*

loop_transpose_fusionkCustomKernel
!

all-gather-done	
kAsyncDone
+

collective-permute-startkAsyncStart
2

collective-permute-start
kCollectivePermute
$

custom-call.5kCublasLtMatmul
)

collective-permute-done
kAsyncDone
6
%
!loop_add_broadcast_convert_fusionkCustomKernel
$

custom-call.7kCublasLtMatmul
$

custom-call.6kCublasLtMatmul
(

wrapped_concatenatekCustomKernel
"

all-reduce-start
kAllReduce


wrapped_slicekCopy


wrapped_slice.1kCopy