; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; Function Attrs: nounwind
define ptx_kernel void @loop_transpose_fusion(ptr noalias nofree readonly align 256 captures(none) dereferenceable(524288) %0, ptr noalias nofree writeonly align 256 captures(none) dereferenceable(524288) %1) local_unnamed_addr #0 {
  %3 = addrspacecast ptr %0 to ptr addrspace(1)
  %4 = addrspacecast ptr %1 to ptr addrspace(1)
  tail call void @llvm.nvvm.griddepcontrol.wait()
  %5 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %6 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !3
  %7 = shl nuw nsw i32 %5, 15
  %8 = and i32 %7, 196608
  %9 = shl nuw nsw i32 %5, 7
  %10 = and i32 %9, 128
  %11 = shl nuw nsw i32 %5, 5
  %12 = and i32 %11, 65280
  %13 = or disjoint i32 %10, %8
  %14 = or disjoint i32 %13, %12
  %15 = or disjoint i32 %14, %6
  %16 = zext nneg i32 %15 to i64
  %17 = getelementptr inbounds [2 x i8], ptr addrspace(1) %3, i64 %16
  %18 = load bfloat, ptr addrspace(1) %17, align 2, !invariant.load !4
  %19 = or disjoint i32 %9, %6
  %20 = zext nneg i32 %19 to i64
  %21 = getelementptr inbounds [2 x i8], ptr addrspace(1) %4, i64 %20
  store bfloat %18, ptr addrspace(1) %21, align 2
  ret void
}

; Function Attrs: nounwind
declare void @llvm.nvvm.griddepcontrol.wait() #1

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 2147483647) i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #2

; Function Attrs: mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #2

attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
attributes #1 = { nounwind }
attributes #2 = { mustprogress nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0, !1}

!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{i32 4, !"nvvm-reflect-ftz", i32 0}
!2 = !{i32 0, i32 2048}
!3 = !{i32 0, i32 128}
!4 = !{}
