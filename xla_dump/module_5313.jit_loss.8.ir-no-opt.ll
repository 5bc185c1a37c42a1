; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @wrapped_concatenate(ptr noalias align 256 dereferenceable(2097152) %0, ptr noalias align 256 dereferenceable(2097152) %1, ptr noalias align 256 dereferenceable(4194304) %2) #0 {
  call void @llvm.nvvm.griddepcontrol.wait()
  %4 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !1
  %5 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !2
  %6 = mul i32 %5, 4
  %7 = mul i32 %4, 512
  %8 = add i32 %6, %7
  %9 = getelementptr inbounds [1048576 x bfloat], ptr %0, i32 0, i32 %8
  %10 = load <4 x bfloat>, ptr %9, align 2, !invariant.load !3
  %11 = getelementptr inbounds [2097152 x bfloat], ptr %2, i32 0, i32 %8
  store <4 x bfloat> %10, ptr %11, align 2
  %12 = add i32 %8, 1048576
  %13 = getelementptr inbounds [1048576 x bfloat], ptr %1, i32 0, i32 %8
  %14 = load <4 x bfloat>, ptr %13, align 2, !invariant.load !3
  %15 = getelementptr inbounds [2097152 x bfloat], ptr %2, i32 0, i32 %12
  store <4 x bfloat> %14, ptr %15, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 0, i32 2048}
!2 = !{i32 0, i32 128}
!3 = !{}
